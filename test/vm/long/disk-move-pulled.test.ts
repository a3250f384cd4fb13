import { describe, test } from 'node:test';
import { moveFromPulled, pulledSetup } from '../disk-kind/pulled-move.ts';
import { startNode } from '../node/start-node.ts';

describe('a volume that moves from disk to disk', () => {
  test('is whole, and can be used, whichever of the two is pulled in the middle and put back', async (t) => {
    await using started = await startNode(t, pulledSetup);
    await moveFromPulled(started);
  });
});
