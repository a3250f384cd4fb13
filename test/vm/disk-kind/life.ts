import assert from 'node:assert/strict';
import { volumeIdFor } from '../../../src/volume/id.ts';
import { SeededRandom } from '../../crash/seeded-random.ts';
import { eventually } from '../../support/eventually.ts';
import { assertKeepsake, leaveKeepsake } from '../faults/keepsake.ts';
import { capacityBytes } from '../faults/pool-sight.ts';
import { type GuestNode, nodeId } from '../node/guest-node.ts';
import { usedVolume } from '../node/life.ts';
import type { NodeSetup, StartedNode } from '../node/start-node.ts';
import { linkOf, prepareLinks, relink } from './links.ts';

const mebibyte = 1n << 20n;
/** What is ours on a disk. */
const ownBytes = 4n * mebibyte;
const sizes = { small: 512n * mebibyte - ownBytes, large: 1024n * mebibyte - ownBytes };
const patienceMs = 600_000;
const poolNames = ['small', 'large'] as const;
const section = (name: string) => `  ${name}: { kind: disk, device: ${linkOf(name)}, labels: { media: hdd } }`;

export const setup: NodeSetup = {
  config: `defaultPool: small\nexpansion: controller\npools:\n${poolNames.map(section).join('\n')}\n`,
  pools: poolNames,
  disks: [
    { name: 'small', sizeGiB: 0.5, bus: 'scsi' },
    { name: 'large', sizeGiB: 1, bus: 'scsi' },
    { name: 'another', sizeGiB: 0.5, bus: 'scsi' },
  ],
  prepare: prepareLinks(3),
};

/** Lives of the volumes of two disks, through all that a node goes through. */
export async function live({ disks, node }: StartedNode): Promise<void> {
  const { controller } = node.client;
  assert.equal(await capacityBytes(node, 'small'), sizes.small);
  const make = async (name: string, required_bytes: bigint) => {
    const { volume } = await controller.CreateVolume({
      name,
      capacity_range: { required_bytes },
      volume_capabilities: [{ block: {}, access_mode: { mode: 'SINGLE_NODE_WRITER' } }],
      parameters: { poolSelector: 'media=hdd' },
    });
    return { id: volume?.volume_id ?? '', sizeBytes: volume?.capacity_bytes };
  };
  // The smallest that fits; and then what is left.
  const first = await make('first', 100n * mebibyte);
  assert.deepEqual(first, { id: volumeIdFor(nodeId, 'small', 'first'), sizeBytes: sizes.small });
  assert.deepEqual(await make('first', 100n * mebibyte), first);
  const second = await make('second', 100n * mebibyte);
  assert.deepEqual(second, { id: volumeIdFor(nodeId, 'large', 'second'), sizeBytes: sizes.large });
  await assert.rejects(make('third', 100n * mebibyte), /RESOURCE_EXHAUSTED/);
  for (const { id } of [first, second]) await controller.DeleteVolume({ volume_id: id });
  await isFree(node);

  const volumes = [await usedVolume(node, 'small', 'xfs'), await usedVolume(node, 'large', 'block')];
  for (const volume of volumes) await leaveKeepsake(node, volume);
  const keep = async () => {
    for (const volume of volumes) await assertKeepsake(node, volume);
  };
  const [mounted] = volumes;
  if (mounted === undefined) assert.fail();
  const expand = (required_bytes: bigint) =>
    node.client.controller.ControllerExpandVolume({ volume_id: mounted.id, capacity_range: { required_bytes } });
  assert.equal((await expand(64n * mebibyte)).capacity_bytes, sizes.small);
  await assert.rejects(expand(sizes.small + 1n), /OUT_OF_RANGE.* does not grow/);
  await says(node, 'pools', /small \(default\) +disk .* open +1 /);
  await says(node, 'doctor', /ok +device-mapper/);

  await node.kill();
  await node.start();
  await keep();

  await node.kill();
  await node.vm.reboot();
  await node.mount();
  await relink(node, 3);
  assert.equal(await node.vm.run('ls /sys/block | grep dm- || true'), '', 'nothing is there after the boot');
  assert.equal(await node.vm.run('ls /sys/block/sda | grep -c sda1 || true'), '1\n', 'the kernel reads the table');
  await node.start();
  for (const volume of volumes) await volume.use();
  await keep();

  const pulled = disks.find(({ name }) => name === 'small') ?? assert.fail();
  const another = disks.find(({ name }) => name === 'another') ?? assert.fail();
  await node.vm.pull(pulled, new SeededRandom(1));
  await relink(node, 2);
  const refuses = (reason: RegExp) =>
    eventually(async () => {
      await assert.rejects(capacityAsked(node), reason);
    }, patienceMs);
  await refuses(/in quarantine/);
  await refuses(/there is no \/dev\/disk\/by-id\/scsi-small/);
  const [, onOther] = volumes;
  if (onOther === undefined) assert.fail();
  await assertKeepsake(node, onOther);
  // A blank disk in its place, under its name.
  const writesBefore = another.writes;
  await node.vm.run(`ln -s $(readlink ${linkOf('another')}) ${linkOf('small')}`);
  await refuses(/this node had pool \S+ here, but \S+ has no pool now/);
  assert.equal(another.writes, writesBefore, 'not one write reached it');

  await node.vm.putBack(pulled);
  await relink(node, 3);
  await mounted.leave();
  await eventually(() => mounted.use(), patienceMs);
  await keep();

  for (const volume of volumes) {
    await volume.leave();
    await volume.delete();
  }
  await isFree(node);
  const data = (name: string) => `$(readlink ${linkOf(name)})`;
  for (const name of poolNames) {
    await node.vm.run(
      `dd if=${data(name)} bs=1M skip=2 count=300 iflag=direct status=none | cmp -n $((300 << 20)) - /dev/zero`,
    );
  }
  assert.equal(another.writes, writesBefore);
}

async function capacityAsked(node: GuestNode): Promise<void> {
  // GetCapacity of a pool in quarantine is 0, and tells no reason.
  await node.client.controller.CreateVolume({
    name: 'never',
    volume_capabilities: [{ block: {}, access_mode: { mode: 'SINGLE_NODE_WRITER' } }],
    parameters: { pool: 'small' },
  });
}

/** What was deleted is wiped behind the answer. */
async function isFree(node: GuestNode): Promise<void> {
  await eventually(async () => {
    for (const name of poolNames) assert.equal(await capacityBytes(node, name), sizes[name]);
  }, patienceMs);
}

/** A command that looks gives up a disk that is silent for long, as this one may be on a busy machine. */
async function says(node: GuestNode, words: string, expected: RegExp): Promise<void> {
  await eventually(async () => assert.match((await node.command(words)).stdout, expected), patienceMs);
}
