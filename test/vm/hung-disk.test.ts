import { describe, test } from 'node:test';
import { assertKeepsake, leaveKeepsake } from './faults/keepsake.ts';
import { Neighbour } from './faults/neighbour.ts';
import { SickPool } from './faults/sick-pool.ts';
import { faultyDisk, twoPools } from './faults/two-pools.ts';
import { usedVolume } from './node/life.ts';
import { startNode } from './node/start-node.ts';

describe('T07: a disk that hangs hurts only itself', () => {
  test('its calls fail with a reason, the others go on, and it comes back by itself', async (t) => {
    await using started = await startNode(t, twoPools);
    const { node } = started;
    const volume = await usedVolume(node, 'sick');
    await leaveKeepsake(node, volume);
    const sick = new SickPool(node, 'sick', [volume]);
    const neighbour = await Neighbour.of(node, 'well');

    await faultyDisk.hang(node.vm);
    // The first call waits for the disk when it is found to be sick; none waits for ever.
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
});
