import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
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
});
