import { describe, test } from 'node:test';
import { leavesToTheFirst, liveMatched, survivesKills } from '../disk-kind/match-life.ts';
import { setup, showsWhatIsTaken, takesWhatIsFree } from '../disk-kind/match-scene.ts';
import { startNode } from '../node/start-node.ts';

describe('disks that were matched', () => {
  test('are shown, are left alone by another driver, and taken again after any kill', async (t) => {
    await using started = await startNode(t, setup);
    await takesWhatIsFree(started);
    await showsWhatIsTaken(started.node);
    await leavesToTheFirst(started);
    await survivesKills(started);
  });

  test('keep their volumes through a reboot, another match, and when they are pulled; what is cleared is taken', async (t) => {
    await using started = await startNode(t, setup);
    await takesWhatIsFree(started);
    await liveMatched(started);
  });
});
