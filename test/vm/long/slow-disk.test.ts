import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { FaultyDisk } from '../faults/faulty-disk.ts';
import { assertKeepsake, leaveKeepsake } from '../faults/keepsake.ts';
import { Neighbour } from '../faults/neighbour.ts';
import { usedVolume } from '../node/life.ts';
import { startNode } from '../node/start-node.ts';

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
const delayMs = 500;

describe('T07: a disk that is slow hurts only itself', () => {
  test('a disk that takes half a second for each request is slow, but right', async (t) => {
    await using started = await startNode(t, { config, pools: ['well', 'sick'], disks, prepare: disk.making });
    const { node } = started;
    const neighbour = await Neighbour.of(node, 'well');

    await disk.slowDown(node.vm, delayMs);
    const slowLife = (async () => {
      const volume = await usedVolume(node, 'sick');
      await leaveKeepsake(node, volume);
      await assertKeepsake(node, volume);
      await volume.leave();
      await volume.delete();
    })();
    await Promise.all([slowLife, neighbour.meanwhile()]);
    assert.doesNotMatch(node.lastWords(), /quarantine/, 'slow is not sick');

    await disk.mend(node.vm);
    await neighbour.assertUndisturbed(t);
  });
});
