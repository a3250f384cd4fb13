import assert from 'node:assert/strict';
import { open } from 'node:fs/promises';
import type { BlockMetadata } from '../../../src/csi/generated/types.ts';
import { connectDriver } from '../../support/client.ts';
import { fleet } from '../harness/fleet/current.ts';
import type { Replica } from '../harness/fleet/fleet-driver.ts';
import { fleetTest } from '../harness/fleet/fleet-test.ts';
import { MetadataStream, type Received } from '../harness/fleet/metadata-stream.ts';
import type { FleetNode } from '../harness/fleet/node.ts';
import type { Namespace } from '../harness/namespace.ts';
import { claim, pod, snapshot } from '../harness/objects.ts';
import { killProcess } from '../harness/processes.ts';
import { waitFor } from '../harness/waiting.ts';

const blockBytes = 4096;
/** More than all buffers between a node and a client hold, at a block in a message. */
const changed = Array.from({ length: 16_384 }, (_, index) => index * 2 * blockBytes);
const unavailable = 14;

/** Two snapshots of a raw block volume on that node; between them every other block has changed. */
async function makeSnapshots(
  namespace: Namespace,
  node: string,
): Promise<{ readonly base: string; readonly target: string }> {
  await namespace.apply(
    claim('disk', { storageClass: 'holdfast-block', volumeMode: 'Block' }),
    pod('user', { volumes: { disk: { source: 'disk', block: true } }, node }),
  );
  await namespace.running('user');
  await writeBlocks(namespace, node, [blockBytes]);
  const base = await take(namespace, 'base');
  await writeBlocks(namespace, node, changed);
  return { base, target: await take(namespace, 'target') };
}

/** Through the device that the pod has. */
async function writeBlocks(namespace: Namespace, node: string, offsets: readonly number[]): Promise<void> {
  const uid = await namespace.field('pod/user', '.metadata.uid');
  const user = fleet()
    .node(node)
    .processes()
    .find(({ cgroups, commandLine }) => cgroups.includes(uid) && commandLine.startsWith('sh '));
  assert.ok(user, 'the pod has no process');
  const device = await open(`/proc/${user.pid}/root/dev/disk`, 'r+');
  try {
    for (const [index, offset] of offsets.entries()) {
      await device.write(Buffer.alloc(blockBytes, 1 + (index % 255)), 0, blockBytes, offset);
    }
    await device.sync();
  } finally {
    await device.close();
  }
}

async function take(namespace: Namespace, name: string): Promise<string> {
  await namespace.apply(snapshot(name, 'disk'));
  await namespace.wait('--for=jsonpath={.status.readyToUse}=true', `volumesnapshot/${name}`);
  const content = await namespace.field(`volumesnapshot/${name}`, '.status.boundVolumeSnapshotContentName');
  return namespace.field(`volumesnapshotcontent/${content}`, '.status.snapshotHandle');
}

/** Where each range begins, if it is one block. */
function blocksOf(ranges: readonly BlockMetadata[]): number[] {
  return ranges.map(({ byte_offset, size_bytes }) => {
    assert.equal(size_bytes, BigInt(blockBytes));
    return Number(byte_offset);
  });
}

/** It stood in the middle, and no client can take it for the whole. */
function isCut({ ranges, status }: Received): void {
  assert.ok(ranges.length > 0 && ranges.length < changed.length, `${ranges.length} of ${changed.length}`);
  assert.notEqual(status, 0);
}

/** Where a client goes on that has so much. */
function nextOffset({ ranges }: Received): bigint {
  const last = ranges.at(-1);
  assert.ok(last);
  return last.byte_offset + last.size_bytes;
}

/** A node that the replica is not on. */
function nodeWithout(replica: Replica): FleetNode {
  const found = fleet().nodes.find(({ name }) => name !== replica.node.name);
  assert.ok(found);
  return found;
}

fleetTest('changed blocks of a snapshot are told by each replica, on whatever node they are', async (namespace) => {
  const { driver } = fleet();
  const replicas = await driver.controllers();
  assert.ok(replicas[0] && replicas.length === 2);
  const node = nodeWithout(replicas[0]);
  const { base, target } = await makeSnapshots(namespace, node.name);
  const delta = { base_snapshot_id: base, target_snapshot_id: target };
  using direct = connectDriver(node.driverSocket);
  const allocated = await direct.snapshotMetadata.GetMetadataAllocated({ snapshot_id: target });
  for (const replica of replicas) {
    using client = connectDriver(await driver.controllerSocket(replica));
    const told = await client.snapshotMetadata.GetMetadataDelta(delta);
    assert.deepEqual(blocksOf(told.flatMap(({ block_metadata }) => block_metadata)), changed);
    assert.deepEqual(await client.snapshotMetadata.GetMetadataAllocated({ snapshot_id: target }), allocated);
  }
});

fleetTest(
  'a stream of changed blocks is cut, not ended, by who dies on its way, and goes on elsewhere',
  async (namespace) => {
    const { driver } = fleet();
    const [first, second] = await driver.controllers();
    assert.ok(first && second);
    const node = nodeWithout(first);
    const { base, target } = await makeSnapshots(namespace, node.name);
    const request = { base_snapshot_id: base, target_snapshot_id: target };

    const stream = await MetadataStream.open(await driver.controllerSocket(first), request);
    killProcess((await driver.controllerProcess(first)).pid);
    const begun = await stream.rest();
    isCut(begun);
    assert.equal(begun.status, undefined);
    // The node makes no more of it.
    await waitFor('the node to leave it', async () => {
      assert.match(await driver.log(node.name), /"rpc":"GetMetadataDelta".*"code":"CANCELLED"/);
    });

    // At the other replica; now it is the node's driver that dies.
    const onward = await MetadataStream.open(await driver.controllerSocket(second), {
      ...request,
      starting_offset: nextOffset(begun),
    });
    killProcess((await driver.process(node, 'serve')).pid);
    const more = await onward.rest();
    isCut(more);
    assert.equal(more.status, unavailable);
    assert.match(more.message, new RegExp(`The link to node ${node.name} was lost`));

    await driver.ready();
    await driver.linked();
    const last = await MetadataStream.open(await driver.controllerSocket(first), {
      ...request,
      starting_offset: nextOffset(more),
    });
    const end = await last.rest();
    assert.equal(end.status, 0, end.message);
    assert.deepEqual(
      [begun, more, end].flatMap(({ ranges }) => blocksOf(ranges)),
      changed,
    );
  },
);
