import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { assertKeepsake, leaveKeepsake } from '../faults/keepsake.ts';
import { Neighbour } from '../faults/neighbour.ts';
import { faultyDisk, twoPools } from '../faults/two-pools.ts';
import { usedVolume } from '../node/life.ts';
import { startNode } from '../node/start-node.ts';

const delayMs = 500;

describe('T07: a disk that is slow hurts only itself', () => {
  test('a disk that takes half a second for each request is slow, but right', async (t) => {
    await using started = await startNode(t, twoPools);
    const { node } = started;
    const neighbour = await Neighbour.of(node, 'well');

    await faultyDisk.slowDown(node.vm, delayMs);
    const slowLife = (async () => {
      const volume = await usedVolume(node, 'sick');
      await leaveKeepsake(node, volume);
      await assertKeepsake(node, volume);
      await volume.leave();
      await volume.delete();
    })();
    await Promise.all([slowLife, neighbour.meanwhile()]);
    assert.doesNotMatch(node.lastWords(), /quarantine/, 'slow is not sick');

    await faultyDisk.mend(node.vm);
    await neighbour.assertUndisturbed(t);
  });
});
