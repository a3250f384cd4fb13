import type { TestContext } from 'node:test';
import { repeatable, SeededRandom } from '../../crash/seeded-random.ts';
import { startNode } from '../node/start-node.ts';
import { PowerRun } from './power-run.ts';
import type { PowerScene } from './scene.ts';
import { tableLines } from './table.ts';

/** What a test of power cuts is told: `npm run test:vm -- --cuts 300 --seed 7`. A seed repeats the choices, not the moments. */
export function cutsAskedFor(defaultCuts: number): { readonly cuts: number; readonly seed: number } {
  return {
    cuts: Number(process.env['HOLDFAST_TEST_CUTS'] ?? defaultCuts),
    seed: Number(process.env['HOLDFAST_TEST_SEED'] ?? Math.floor(Math.random() * 2 ** 32)),
  };
}

/** Cuts the power of a new node so often, looks at all there is after each cut, and prints what it came to. */
export async function cutUnderLoad(
  t: TestContext,
  scene: PowerScene,
  { cuts, seed }: { readonly cuts: number; readonly seed: number },
): Promise<void> {
  // Not a diagnostic: those are shown when the test is over.
  console.log(`  ${cuts} power cuts; HOLDFAST_TEST_SEED=${seed} repeats the choices of this run`);
  const startedMs = performance.now();
  await using started = await startNode(t, scene.setup);
  const run = new PowerRun(started.node, new SeededRandom(seed), scene);
  await repeatable(seed, async () => {
    while (run.tally.cuts < cuts) console.log(`  ${await run.once()} (of ${cuts})`);
    console.log(`  at last: ${await run.check({ allSnapshots: true })}`);
    await run.leave();
  });
  for (const line of tableLines(run.tally, seed, performance.now() - startedMs)) console.log(line);
}
