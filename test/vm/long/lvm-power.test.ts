import { describe, test } from 'node:test';
import { repeatable, SeededRandom } from '../../crash/seeded-random.ts';
import { lvmScene } from '../lvm/power-scene.ts';
import { startNode } from '../node/start-node.ts';
import { PowerRun } from '../power/power-run.ts';
import { tableLines } from '../power/table.ts';

/** `npm run test:vm -- --cuts 300 --seed 7 lvm`. */
const cuts = Number(process.env['HOLDFAST_TEST_CUTS'] ?? 10);
const seed = Number(process.env['HOLDFAST_TEST_SEED'] ?? Math.floor(Math.random() * 2 ** 32));

describe('T01 T02 T06: power cuts under load, in a volume group', () => {
  test('what was acknowledged is there, and nothing half done', async (t) => {
    console.log(`  ${cuts} power cuts; HOLDFAST_TEST_SEED=${seed} repeats the choices of this run`);
    const startedMs = performance.now();
    await using started = await startNode(t, lvmScene.setup);
    const run = new PowerRun(started.node, new SeededRandom(seed), lvmScene);
    await repeatable(seed, async () => {
      while (run.tally.cuts < cuts) console.log(`  ${await run.once()} (of ${cuts})`);
      console.log(`  at last: ${await run.check({ allSnapshots: true })}`);
      await run.leave();
    });
    for (const line of tableLines(run.tally, seed, performance.now() - startedMs)) console.log(line);
  });
});
