import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { repeatable, SeededRandom } from '../crash/seeded-random.ts';
import { startNode } from './node/start-node.ts';
import { Violation } from './power/facts.ts';
import { filesScene } from './power/files-scene.ts';
import { PowerRun } from './power/power-run.ts';
import { tableLines } from './power/table.ts';

/** `npm run test:vm -- --cuts 300 --seed 7`. A seed repeats the choices, not the moments. */
const cuts = Number(process.env['HOLDFAST_TEST_CUTS'] ?? 5);
const seed = Number(process.env['HOLDFAST_TEST_SEED'] ?? Math.floor(Math.random() * 2 ** 32));
/** A disk that lies loses something that counts within so many cuts. */
const lyingCuts = 5;

describe('T01 T02 T06: power cuts under load', () => {
  test('what was acknowledged is there, and nothing half done', async (t) => {
    // Not a diagnostic: those are shown when the test is over.
    console.log(`  ${cuts} power cuts; HOLDFAST_TEST_SEED=${seed} repeats the choices of this run`);
    const startedMs = performance.now();
    await using started = await startNode(t, filesScene.setup);
    const run = new PowerRun(started.node, new SeededRandom(seed), filesScene);
    await repeatable(seed, async () => {
      while (run.tally.cuts < cuts) console.log(`  ${await run.once()} (of ${cuts})`);
      console.log(`  at last: ${await run.check({ allSnapshots: true })}`);
      await run.leave();
    });
    for (const line of tableLines(run.tally, seed, performance.now() - startedMs)) console.log(line);
  });

  test('on a disk that ignores flushes the same test fails', async (t) => {
    await using started = await startNode(t, filesScene.setup);
    for (const disk of started.disks.filter(({ name }) => name === 'pool')) disk.ignoresFlushes = true;
    const run = new PowerRun(started.node, new SeededRandom(seed), filesScene);
    const cutAgain = async () => {
      while (run.tally.cuts < lyingCuts) await run.once();
    };
    // Nothing else counts: a machine that does not boot, or a driver that dies, shows nothing about flushes.
    await assert.rejects(cutAgain(), Violation);
    t.diagnostic(`noticed after ${run.tally.cuts} cuts`);
  });
});
