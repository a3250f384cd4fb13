import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { BlockMetadata } from '../../../src/csi/generated/types.ts';
import { snapshotIdFor } from '../../../src/volume/id.ts';
import { eventually } from '../../support/eventually.ts';
import { assertKeepsake, leaveKeepsake } from '../faults/keepsake.ts';
import { nodeId } from '../node/guest-node.ts';
import { newVolume, usedVolume } from '../node/life.ts';
import { type NodeSetup, startNode } from '../node/start-node.ts';

const mebibyte = 1n << 20n;
const sizeBytes = 32n * mebibyte;
const patienceMs = 600_000;

const setup: NodeSetup = {
  config: `
defaultPool: fast
pools:
  fast: { kind: lvm, volumeGroup: vg0, thinPool: { size: 1Gi, overcommit: 2 }, sickAfter: 10m }
`,
  pools: ['fast'],
  disks: [{ name: 'first', sizeGiB: 2 }],
  prepare: 'lvm vgcreate --yes vg0 /dev/vdb',
};

describe('a node with a pool of thin volumes', () => {
  test('a life of volumes, through kills and a reboot, with snapshots of volumes in use', async (t) => {
    await using started = await startNode(t, setup);
    const { node } = started;
    const [mounted, block] = [await usedVolume(node, 'fast', 'ext4'), await usedVolume(node, 'fast', 'block')];
    for (const volume of [mounted, block]) await leaveKeepsake(node, volume);
    for (const volume of [mounted, block]) await volume.expand(2n * sizeBytes);
    assert.equal(BigInt(await node.vm.run(`blockdev --getsize64 ${block.targetPath}`)), 2n * sizeBytes);
    await mounted.snapshot('in-use');
    const restored = newVolume(node, 'fast');
    await restored.create(4n * sizeBytes, snapshotIdFor(nodeId, 'in-use'));
    await restored.use();
    await assertKeepsake(node, restored);

    await node.kill();
    await node.start();
    for (const volume of [mounted, block, restored]) await assertKeepsake(node, volume);
    await restored.leave();
    await restored.modify({ undelete: '1h' });
    await restored.delete();
    await eventually(
      async () => assert.equal((await node.command(`trash restore ${restored.id}`)).code, 0),
      patienceMs,
    );
    await restored.use();
    await assertKeepsake(node, restored);

    await node.kill();
    await node.vm.reboot();
    await node.mount();
    assert.equal(await node.vm.run('ls /sys/block | grep dm- || true'), '', 'nothing is active after the boot');
    await node.start();
    for (const volume of [mounted, block, restored]) {
      await volume.use();
      await assertKeepsake(node, volume);
    }
    await eventually(
      async () => assert.match((await node.command('pools')).stdout, /fast \(default\) +lvm +reflink +open +3 /),
      patienceMs,
    );
    await eventually(
      async () => assert.match((await node.command('doctor')).stdout, /thin pool +rw; data: [0-9]+ % of 1Gi/),
      patienceMs,
    );
  });

  test('SM14: what differs between snapshots of a volume in use, by gRPC, through a kill', async (t) => {
    await using started = await startNode(t, setup);
    const { node } = started;
    const volume = await usedVolume(node, 'fast', 'block');
    await leaveKeepsake(node, volume);
    await volume.snapshot('base');
    await node.vm.run(`dd if=/dev/urandom of=${volume.targetPath} bs=64K count=2 seek=128 oflag=direct status=none`);
    await volume.snapshot('target');
    // Written after the snapshot: no part of it.
    await node.vm.run(`dd if=/dev/urandom of=${volume.targetPath} bs=64K count=1 seek=256 oflag=direct status=none`);

    const [base_snapshot_id, target_snapshot_id] = [snapshotIdFor(nodeId, 'base'), snapshotIdFor(nodeId, 'target')];
    const kept = { byte_offset: 0n, size_bytes: 5n << 16n };
    const written = { byte_offset: 8n * mebibyte, size_bytes: 2n << 16n };
    const look = async () => {
      const { snapshotMetadata } = node.client;
      assert.deepEqual(await rangesOf(snapshotMetadata.GetMetadataAllocated({ snapshot_id: base_snapshot_id })), [
        kept,
      ]);
      const delta = snapshotMetadata.GetMetadataDelta({ base_snapshot_id, target_snapshot_id });
      assert.deepEqual(await rangesOf(delta), [written]);
      const allocated = snapshotMetadata.GetMetadataAllocated({ snapshot_id: target_snapshot_id });
      assert.deepEqual(await rangesOf(allocated), [kept, written]);
    };
    await look();
    await node.kill();
    await node.start();
    await look();
  });
});

/** All ranges of an answer, those that touch as one. */
async function rangesOf(
  answer: Promise<readonly { readonly block_metadata: readonly BlockMetadata[] }[]>,
): Promise<BlockMetadata[]> {
  const ranges: BlockMetadata[] = [];
  for (const { byte_offset, size_bytes } of (await answer).flatMap(({ block_metadata }) => block_metadata)) {
    const last = ranges.at(-1);
    if (last !== undefined && last.byte_offset + last.size_bytes === byte_offset) last.size_bytes += size_bytes;
    else ranges.push({ byte_offset, size_bytes });
  }
  return ranges;
}
