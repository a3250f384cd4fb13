import { join } from 'node:path';
import { blockSizeOf } from '../../src/pool/kinds/image/block-size.ts';
import type { Scratch } from '../support/scratch.ts';
import type { Caller } from './caller.ts';
import { Crowd } from './crowd.ts';
import type { DriverPlaces, PoolName } from './driver-process.ts';
import { FloorProcess } from './floor-process.ts';
import { type Rpc, rpcs } from './life.ts';
import { median, percentile } from './statistics.ts';

export interface LifecyclePlan {
  readonly rounds: number;
  readonly lives: { readonly floor: number; readonly one: number; readonly many: number };
}

/** Who lived the lives: the raw floor, the driver with one caller, the driver with sixteen. */
export const runners = ['floor', 'one', 'many'] as const;
export type Runner = (typeof runners)[number];
export const manyCallers = 16;

export interface LifecycleResult {
  readonly pool: PoolName;
  /** Lives a second: the median over the rounds. */
  readonly rate: Readonly<Record<Runner, number>>;
  /** Of the floor's rate. */
  readonly ratio: { readonly one: number; readonly many: number };
  readonly latencyMs: Readonly<Record<Rpc, Readonly<Record<Runner, { readonly p50: number; readonly p99: number }>>>>;
}

interface LifecycleOptions {
  readonly scratch: Scratch;
  readonly places: DriverPlaces;
  readonly caller: Caller;
  readonly pool: PoolName;
  readonly plan: LifecyclePlan;
  readonly signal: AbortSignal;
}

const volume = { content: { type: 'mount', fsType: 'ext4' }, mkfsArguments: [] } as const;

/** Rounds of floor, one caller and many callers in turn, so that what else the machine does meets all three alike. */
export async function measureLifecycles(options: LifecycleOptions): Promise<LifecycleResult> {
  const { scratch, places, caller, pool, plan, signal } = options;
  const root = places.poolRoot(pool);
  await using floor = await FloorProcess.start({
    poolDirectory: pool === 'directory' ? scratch.join('floor') : join(root, 'floor'),
    targetDirectory: join(places.kubelet, `floor-${pool}`),
    // With another block size than the driver's volumes have, the floor would be another one.
    loop: { blockSizeBytes: blockSizeOf(volume, 512), directIo: true },
  });
  const crowd = new Crowd(caller, places, signal);
  const run = {
    floor: () => floor.run(plan.lives.floor),
    one: () => crowd.run(pool, plan.lives.one, 1),
    many: () => crowd.run(pool, plan.lives.many, manyCallers),
  };
  const rates: Record<Runner, number[]> = { floor: [], one: [], many: [] };
  const stepMs: Record<Runner, (readonly number[])[]> = { floor: [], one: [], many: [] };
  // Round 0 is for caches and compilers.
  for (let round = 0; round <= plan.rounds; round++) {
    for (const runner of runners) {
      signal.throwIfAborted();
      const report = await run[runner]();
      if (round === 0) continue;
      rates[runner].push((report.stepMs.length * 1000) / report.elapsedMs);
      stepMs[runner].push(...report.stepMs);
    }
  }
  const rate = { floor: median(rates.floor), one: median(rates.one), many: median(rates.many) };
  return {
    pool,
    rate,
    ratio: { one: rate.one / rate.floor, many: rate.many / rate.floor },
    latencyMs: latencies(stepMs),
  };
}

function latencies(stepMs: Readonly<Record<Runner, readonly (readonly number[])[]>>): LifecycleResult['latencyMs'] {
  const of = (runner: Runner, step: number) => {
    const values = stepMs[runner].map((times) => times[step] ?? Number.NaN);
    return { p50: percentile(values, 0.5), p99: percentile(values, 0.99) };
  };
  const entries = rpcs.map((rpc, step) => [
    rpc,
    { floor: of('floor', step), one: of('one', step), many: of('many', step) },
  ]);
  // An entry for each RPC was just made.
  return Object.fromEntries(entries) as LifecycleResult['latencyMs'];
}
