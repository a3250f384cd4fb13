import { describe, test } from 'node:test';
import { assertKeepsake, assertOutlived, leaveKeepsake } from '../faults/keepsake.ts';
import { Neighbour } from '../faults/neighbour.ts';
import { SickPool } from '../faults/sick-pool.ts';
import { faultyDisk, twoDisks } from '../faults/two-pools.ts';
import { usedVolume } from '../node/life.ts';
import { type NodeSetup, startNode } from '../node/start-node.ts';

/** Two volume groups, each on a disk of its own. A disk that is pulled: lvm-node.test.ts. */
const twoGroups: NodeSetup = {
  config: `
defaultPool: well
pools:
  well: { kind: lvm, volumeGroup: vg0, sickAfter: 10m }
  sick: { kind: lvm, volumeGroup: vg1 }
`,
  pools: ['well', 'sick'],
  disks: twoDisks,
  prepare: `${faultyDisk.making} && lvm vgcreate --yes vg0 /dev/vdb && lvm vgcreate --yes vg1 ${faultyDisk.path}`,
};

describe('T07: a disk below one volume group hurts only the pool in that group', () => {
  test('it hangs: calls fail with a reason, the other pool goes on, and it comes back by itself', async (t) => {
    await using started = await startNode(t, twoGroups);
    const { node } = started;
    const volume = await usedVolume(node, 'sick');
    await leaveKeepsake(node, volume);
    const sick = new SickPool(node, 'sick', [volume]);
    const neighbour = await Neighbour.of(node, 'well');

    await faultyDisk.hang(node.vm);
    await sick.refuses(/in quarantine .* has not answered for 20 s/);
    await neighbour.meanwhile();
    await sick.assertInQuarantine();

    await faultyDisk.mend(node.vm);
    await sick.recovers();
    await assertKeepsake(node, volume);
    await volume.leave();
    await volume.delete();
    await neighbour.assertUndisturbed(t);
  });

  test('writes fail: the other pool goes on, and it comes back when the disk is well', async (t) => {
    await using started = await startNode(t, twoGroups);
    const { node } = started;
    const volumes = [await usedVolume(node, 'sick'), await usedVolume(node, 'sick', 'block')];
    for (const volume of volumes) await leaveKeepsake(node, volume);
    const sick = new SickPool(node, 'sick', volumes);
    const neighbour = await Neighbour.of(node, 'well');

    await faultyDisk.refuseWrites(node.vm);
    await sick.refuses(/in quarantine .*EIO/);
    await neighbour.meanwhile();
    await sick.assertInQuarantine();

    await faultyDisk.mend(node.vm);
    for (const volume of volumes) await volume.leave();
    await sick.recovers();
    await assertOutlived(node, volumes);
    await neighbour.assertUndisturbed(t);
  });
});

describe('lvm 3: one disk of several of a volume group', () => {
  test('hangs: no call waits for it for ever, though all that is used lies on the other; the pool comes back by itself', async (t) => {
    await using started = await startNode(t, {
      config: 'pools: { sick: { kind: lvm, volumeGroup: vg1 } }\n',
      pools: ['sick'],
      disks: twoDisks,
      // All lies on the first disk, until that is full.
      prepare: `${faultyDisk.making} && lvm vgcreate --yes vg1 /dev/vdb ${faultyDisk.path}`,
    });
    const { node } = started;
    const volume = await usedVolume(node, 'sick');
    const sick = new SickPool(node, 'sick', [volume]);

    await faultyDisk.hang(node.vm);
    await sick.refuses(/in quarantine .* has not answered for 20 s/);
    await sick.assertInQuarantine();

    await faultyDisk.mend(node.vm);
    await sick.recovers();
    await volume.leave();
    await volume.delete();
  });
});
