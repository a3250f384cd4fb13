import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { FaultyDisk } from './faults/faulty-disk.ts';
import { assertKeepsake, leaveKeepsake } from './faults/keepsake.ts';
import { Neighbour } from './faults/neighbour.ts';
import { SickPool } from './faults/sick-pool.ts';
import { usedVolume } from './node/life.ts';
import { startNode } from './node/start-node.ts';

const disk = new FaultyDisk('sick', '/dev/vdc');
const config = `
defaultPool: well
pools:
  well: { device: /dev/vdb, sickAfter: 10m }
  sick: { device: ${disk.path} }
`;
const disks = [
  { name: 'well', sizeGiB: 2 },
  { name: 'sick', sizeGiB: 2 },
];

describe('T07: a disk that fails hurts only itself', () => {
  test('I/O errors: its filesystem shuts down, and is mounted anew when the disk is well and the pods are gone', async (t) => {
    await using started = await startNode(t, { config, pools: ['well', 'sick'], disks, prepare: disk.making });
    const { node } = started;
    const volumes = [await usedVolume(node, 'sick'), await usedVolume(node, 'sick', 'block')];
    for (const volume of volumes) await leaveKeepsake(node, volume);
    const sick = new SickPool(node, 'sick', volumes);
    const neighbour = await Neighbour.of(node, 'well');

    await disk.refuseWrites(node.vm);
    await sick.refuses(/in quarantine .*(EIO|ESHUTDOWN)/);
    await neighbour.meanwhile();
    await sick.assertInQuarantine();
    const path = `${volumes[0]?.targetPath}/lost`;
    await assert.rejects(node.vm.task('write', { path, seed: 2, sizeBytes: 4096 }), /EIO|EROFS/);

    await disk.mend(node.vm);
    await sick.refuses(/Stop the pods/);
    for (const volume of volumes) await volume.leave();
    await sick.recovers();
    for (const volume of volumes) {
      await volume.use();
      await assertKeepsake(node, volume);
      await volume.leave();
      await volume.delete();
    }
    await neighbour.assertUndisturbed(t);
  });
});
