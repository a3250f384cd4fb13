import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { SeededRandom } from '../crash/seeded-random.ts';
import { startNode } from './node/start-node.ts';
import { cutsAskedFor, cutUnderLoad } from './power/cut-under-load.ts';
import { Violation } from './power/facts.ts';
import { filesScene } from './power/files-scene.ts';
import { PowerRun } from './power/power-run.ts';

const asked = cutsAskedFor(5);
/** A disk that lies loses something that counts within so many cuts. */
const lyingCuts = 5;

describe('T01 T02 T06: power cuts under load', () => {
  test('what was acknowledged is there, and nothing half done', (t) => cutUnderLoad(t, filesScene, asked));

  test('on a disk that ignores flushes the same test fails', async (t) => {
    await using started = await startNode(t, filesScene.setup);
    for (const disk of started.disks.filter(({ name }) => name === 'pool')) disk.ignoresFlushes = true;
    const run = new PowerRun(started.node, new SeededRandom(asked.seed), filesScene);
    const cutAgain = async () => {
      while (run.tally.cuts < lyingCuts) await run.once();
    };
    // Nothing else counts: a machine that does not boot, or a driver that dies, shows nothing about flushes.
    await assert.rejects(cutAgain(), Violation);
    t.diagnostic(`noticed after ${run.tally.cuts} cuts`);
  });
});
