import assert from 'node:assert/strict';
import { after, before, describe, type TestContext, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { Scratch } from '../support/scratch.ts';
import { buildDriver, type DriverCommand } from './bundle.ts';
import { Caller } from './caller.ts';
import { type CrashNode, makeNode } from './crash-node.ts';
import type { PoolLocation } from './crash-pool.ts';
import { capacitiesOf, checkEmpty, checkStopped } from './invariants.ts';
import { repeatable, SeededRandom } from './seeded-random.ts';

/** HOLDFAST_TEST_SEED repeats a run's choices, HOLDFAST_TEST_KILLS makes it longer. */
const seed = Number(process.env['HOLDFAST_TEST_SEED'] ?? Math.floor(Math.random() * 2 ** 32));
const kills = Number(process.env['HOLDFAST_TEST_KILLS'] ?? 40);
const callerCount = 8;

describe('T01 T02 T04 T05: kill -9 at random moments under 8 callers', () => {
  let command: DriverCommand;
  before(async () => {
    command = await buildDriver();
  });
  after(() => command[Symbol.dispose]());

  for (const pool of ['file', 'directory'] as const) {
    test(`the pool is in a ${pool}`, (t) => repeatable(seed, () => liveAndKill(t, command, pool)));
  }
});

async function liveAndKill(t: TestContext, command: DriverCommand, pool: PoolLocation): Promise<void> {
  t.diagnostic(`HOLDFAST_TEST_SEED=${seed} repeats this run`);
  using scratch = new Scratch('crash');
  await using node = makeNode(command, scratch, { pools: [pool] });
  const random = new SeededRandom(seed);
  await node.start();
  const capacities = await capacitiesOf(node);
  await node.kill();

  const callers = Array.from({ length: callerCount }, (_, i) => new Caller(node, `caller${i}`, random.fork()));
  const stop = new AbortController();
  const lives = Promise.all(callers.map((caller) => caller.run(stop.signal))).finally(() => stop.abort());
  // Heard of below, when the killing has stopped.
  lives.catch(() => undefined);
  const startedMs = performance.now();
  const killed = await killAtRandom(node, random, Math.ceil(kills / 2), stop.signal);
  stop.abort();
  await lives;

  const sum = (count: (caller: Caller) => number) => callers.reduce((total, caller) => total + count(caller), 0);
  const seconds = ((performance.now() - startedMs) / 1000).toFixed(1);
  t.diagnostic(
    `${killed} kills in ${seconds} s; ${sum((c) => c.lives)} lives of volumes, ${sum((c) => c.interruptions)} calls were interrupted`,
  );
  await checkEmpty(node, capacities);
  assert.deepEqual(await node.stop(), { code: 0, signal: null }, node.lastWords());
  await checkStopped(node);
}

/** Leaves a driver running. Stops early if a caller has failed. */
async function killAtRandom(
  node: CrashNode,
  random: SeededRandom,
  count: number,
  signal: AbortSignal,
): Promise<number> {
  let killed = 0;
  for (; killed < count && !signal.aborted; killed++) {
    node.spawn();
    const duringStart = random.chance(0.25);
    if (!duringStart) await node.ready();
    await delay(random.below(duringStart ? 400 : 700));
    await node.kill();
  }
  await node.start();
  return killed;
}
