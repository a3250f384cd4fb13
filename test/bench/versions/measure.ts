import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { blockSizeOf } from '../../../src/pool/kinds/image/block-size.ts';
import { Scratch } from '../../support/scratch.ts';
import { connectCaller } from '../caller.ts';
import { Crowd, type CrowdReport } from '../crowd.ts';
import { DriverPlaces, DriverProcess, type PoolName } from '../driver-process.ts';
import { FloorProcess } from '../floor-process.ts';
import { manyCallers } from '../lifecycles.ts';
import { PeakWatch } from '../peak.ts';
import { awaitReady } from '../startup.ts';
import { median } from '../statistics.ts';

export const versions = ['before', 'after'] as const;
export type Version = (typeof versions)[number];

export interface VersionsPlan {
  readonly pool: PoolName;
  readonly rounds: number;
  readonly lives: { readonly floor: number; readonly one: number; readonly many: number };
}

export interface VersionResult {
  /** Lives a second as a share of the floor's in the same round: the median over the rounds. */
  readonly ofFloor: { readonly one: number; readonly many: number };
  /** Processor time of the driver's process for one life, with one caller and with 16: the median over the rounds. */
  readonly cpuMs: { readonly one: number; readonly many: number };
  readonly createP50Ms: { readonly one: number; readonly many: number };
  /** Seconds that the first 100 lives of a fresh driver took, as a share of the 100 lives after 300 others. */
  readonly coldOfWarm: number;
  /** While 16 callers were in progress. */
  readonly peakAnonymousBytes: number;
}

export interface VersionsResult {
  readonly floorRate: number;
  readonly results: Readonly<Record<Version, VersionResult>>;
}

const ext4 = { content: { type: 'mount', fsType: 'ext4' }, mkfsArguments: [] } as const;

/** USER_HZ, which is 100 on each architecture that Node runs on. proc_pid_stat(5) */
const tickMs = 10;

/** Two bundles and the floor in turn, round by round, so that everything else on the machine slows all three alike. */
export async function measureVersions(
  bundles: Readonly<Record<Version, string>>,
  plan: VersionsPlan,
  say: (text: string) => void,
  signal: AbortSignal,
): Promise<VersionsResult> {
  await using before = await RunningVersion.start(bundles.before, plan, signal);
  await using after = await RunningVersion.start(bundles.after, plan, signal);
  using scratch = new Scratch('bench-floor');
  await using floor = await FloorProcess.start({
    poolDirectory: plan.pool === 'directory' ? scratch.join('floor') : join(after.poolRoot, 'floor'),
    targetDirectory: after.floorTarget,
    loop: { blockSizeBytes: blockSizeOf(ext4, 512), directIo: true },
  });
  const floorRates: number[] = [];
  for (let round = 0; round <= plan.rounds; round++) {
    say(round === 0 ? 'first lives of fresh drivers' : `round ${round} of ${plan.rounds}`);
    const floorReport = await floor.run(plan.lives.floor);
    const floorRate = rateOf(floorReport);
    // The one that goes first changes, so that neither always meets what the floor left behind.
    const order = round % 2 === 0 ? [before, after] : [after, before];
    for (const version of order) {
      signal.throwIfAborted();
      if (round === 0) await version.warmUp();
      else await version.round(floorRate);
    }
    if (round > 0) floorRates.push(floorRate);
  }
  return { floorRate: median(floorRates), results: { before: before.result(), after: after.result() } };
}

class RunningVersion implements AsyncDisposable {
  readonly #plan: VersionsPlan;
  readonly #places: DriverPlaces;
  readonly #driver: DriverProcess;
  readonly #crowd: Crowd;
  readonly #resources: AsyncDisposableStack;
  readonly #seen = {
    one: { ofFloor: [] as number[], cpuMs: [] as number[], createMs: [] as number[] },
    many: { ofFloor: [] as number[], cpuMs: [] as number[], createMs: [] as number[] },
  };
  #coldOfWarm = Number.NaN;
  #peakBytes = 0;

  private constructor(
    plan: VersionsPlan,
    parts: { places: DriverPlaces; driver: DriverProcess; crowd: Crowd; resources: AsyncDisposableStack },
  ) {
    this.#plan = plan;
    this.#places = parts.places;
    this.#driver = parts.driver;
    this.#crowd = parts.crowd;
    this.#resources = parts.resources;
  }

  static async start(bundle: string, plan: VersionsPlan, signal: AbortSignal): Promise<RunningVersion> {
    await using resources = new AsyncDisposableStack();
    const scratch = resources.use(new Scratch('bench-version'));
    const places = new DriverPlaces(scratch);
    const driver = resources.use(new DriverProcess(places, bundle));
    await awaitReady(driver, places);
    const caller = resources.use(connectCaller(places.socket));
    const crowd = new Crowd(caller, places, signal);
    return new RunningVersion(plan, { places, driver, crowd, resources: resources.move() });
  }

  get poolRoot(): string {
    return this.#places.poolRoot(this.#plan.pool);
  }

  get floorTarget(): string {
    return join(this.#places.kubelet, 'floor');
  }

  async warmUp(): Promise<void> {
    const { pool } = this.#plan;
    const cold = await this.#crowd.run(pool, 100, 1);
    await this.#crowd.run(pool, 300, manyCallers);
    const warm = await this.#crowd.run(pool, 100, 1);
    this.#coldOfWarm = cold.elapsedMs / warm.elapsedMs;
  }

  async round(floorRate: number): Promise<void> {
    await this.#measure('one', 1, floorRate);
    using peak = new PeakWatch(this.#driver);
    await this.#measure('many', manyCallers, floorRate);
    this.#peakBytes = Math.max(this.#peakBytes, peak.anonymousBytes);
  }

  async #measure(runner: 'one' | 'many', callers: number, floorRate: number): Promise<void> {
    const seen = this.#seen[runner];
    const started = this.#cpuMs();
    const report = await this.#crowd.run(this.#plan.pool, this.#plan.lives[runner], callers);
    seen.cpuMs.push((this.#cpuMs() - started) / report.stepMs.length);
    seen.ofFloor.push(rateOf(report) / floorRate);
    seen.createMs.push(median(report.stepMs.map(([createMs]) => createMs ?? Number.NaN)));
  }

  result(): VersionResult {
    const { one, many } = this.#seen;
    return {
      ofFloor: { one: median(one.ofFloor), many: median(many.ofFloor) },
      cpuMs: { one: median(one.cpuMs), many: median(many.cpuMs) },
      createP50Ms: { one: median(one.createMs), many: median(many.createMs) },
      coldOfWarm: this.#coldOfWarm,
      peakAnonymousBytes: this.#peakBytes,
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#resources.disposeAsync();
  }

  /** User and system time of all threads. */
  #cpuMs(): number {
    const stat = readFileSync(`/proc/${this.#driver.pid}/stat`, 'utf8');
    // The name of the program, in parentheses, may have spaces.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return (Number(fields[11]) + Number(fields[12])) * tickMs;
  }
}

function rateOf({ stepMs, elapsedMs }: CrowdReport): number {
  return (stepMs.length * 1000) / elapsedMs;
}
