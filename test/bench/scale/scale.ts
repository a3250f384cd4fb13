import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { Scratch } from '../../support/scratch.ts';
import { type Caller, connectCaller } from '../caller.ts';
import { DriverPlaces, DriverProcess } from '../driver-process.ts';
import { capability } from '../life.ts';
import { manyCallers } from '../lifecycles.ts';
import { awaitReady } from '../startup.ts';
import { median } from '../statistics.ts';
import { table } from '../table.ts';

/** What must not take longer with more volumes. */
export const scaledSteps = [
  'CreateVolume',
  'DeleteVolume',
  'GetCapacity',
  'ListVolumes',
  'Probe',
  // From the start of the process.
  'first Probe',
  'first CreateVolume',
] as const;
export type ScaledStep = (typeof scaledSteps)[number];

/** Two drivers that differ in how many volumes they have. */
const crowds = ['few', 'many'] as const;
type CrowdName = (typeof crowds)[number];

export interface ScaleResult {
  readonly volumes: Readonly<Record<CrowdName, number>>;
  /** Of many, those that a node has staged. */
  readonly usedVolumes: number;
  readonly medianMs: Readonly<Record<ScaledStep, Readonly<Record<CrowdName, number>>>>;
}

export interface ScalePlan {
  readonly volumes: ScaleResult['volumes'];
  readonly usedVolumes: number;
  readonly rounds: number;
  readonly starts: number;
}

/** They are all sparse: so small only because as many have to fit. */
const sizeBytes = 64n << 20n;
/** Of a page of ListVolumes, with few volumes too. */
const pageEntries = 100;
const pool = 'file';

interface Arm {
  readonly places: DriverPlaces;
  readonly times: Record<ScaledStep, number[]>;
}

/** Few and many volumes in turn, so that what else the machine does meets both alike. */
export async function measureScale(bundle: string, plan: ScalePlan, signal: AbortSignal): Promise<ScaleResult> {
  using fewScratch = new Scratch('bench-few');
  using manyScratch = new Scratch('bench-many');
  const arms: Readonly<Record<CrowdName, Arm>> = { few: newArm(fewScratch), many: newArm(manyScratch) };
  await measureCalls(bundle, plan, arms, signal);
  for (let start = 0; start < plan.starts; start++) {
    for (const { places, times } of inTurn(arms, start)) {
      signal.throwIfAborted();
      await using driver = new DriverProcess(places, bundle);
      times['first Probe'].push((await awaitReady(driver, places)).firstProbeMs);
      using caller = connectCaller(places.socket);
      const { volume } = await create(caller, 'first');
      times['first CreateVolume'].push(performance.now() - driver.startedMs);
      await caller.controller.DeleteVolume({ volume_id: volume?.volume_id ?? '' });
    }
  }
  const entries = scaledSteps.map((step) => [
    step,
    { few: median(arms.few.times[step]), many: median(arms.many.times[step]) },
  ]);
  // An entry for each step was just made.
  return {
    volumes: plan.volumes,
    usedVolumes: plan.usedVolumes,
    medianMs: Object.fromEntries(entries) as ScaleResult['medianMs'],
  };
}

function newArm(scratch: Scratch): Arm {
  return {
    places: new DriverPlaces(scratch),
    times: {
      ...{ CreateVolume: [], DeleteVolume: [], GetCapacity: [], ListVolumes: [] },
      ...{ Probe: [], 'first Probe': [], 'first CreateVolume': [] },
    },
  };
}

function inTurn(arms: Readonly<Record<CrowdName, Arm>>, round: number): Arm[] {
  return round % 2 === 0 ? [arms.few, arms.many] : [arms.many, arms.few];
}

async function measureCalls(
  bundle: string,
  { rounds, usedVolumes, volumes }: ScalePlan,
  arms: Readonly<Record<CrowdName, Arm>>,
  signal: AbortSignal,
): Promise<void> {
  await using few = new DriverProcess(arms.few.places, bundle);
  await using many = new DriverProcess(arms.many.places, bundle);
  for (const [driver, { places }] of [[few, arms.few] as const, [many, arms.many] as const]) {
    await awaitReady(driver, places);
  }
  using fewCaller = connectCaller(arms.few.places.socket);
  using manyCaller = connectCaller(arms.many.places.socket);
  await populate(volumes.few, signal, (index) => create(fewCaller, `kept-${index}`));
  await populate(volumes.many, signal, async (index) => {
    const { volume } = await create(manyCaller, `kept-${index}`);
    if (index < usedVolumes) await stage(manyCaller, arms.many.places, volume?.volume_id ?? '');
  });
  const callers = new Map([
    [arms.few, fewCaller],
    [arms.many, manyCaller],
  ]);
  // Round 0 is for caches and compilers.
  for (let round = 0; round <= rounds; round++) {
    for (const arm of inTurn(arms, round)) {
      signal.throwIfAborted();
      const caller = callers.get(arm);
      if (caller === undefined) continue;
      const times = await callEach(caller, `measured-${round}`);
      if (round > 0) for (const [step, elapsedMs] of times) arm.times[step].push(elapsedMs);
    }
  }
}

async function populate(count: number, signal: AbortSignal, make: (index: number) => Promise<unknown>): Promise<void> {
  let made = 0;
  const makeSome = async () => {
    while (made < count) {
      signal.throwIfAborted();
      await make(made++);
    }
  };
  await Promise.all(Array.from({ length: manyCallers }, makeSome));
}

async function stage({ node }: Caller, places: DriverPlaces, volumeId: string): Promise<void> {
  const stagingPath = join(places.kubelet, 'plugins', volumeId, 'globalmount');
  mkdirSync(stagingPath, { recursive: true });
  await node.NodeStageVolume({
    volume_id: volumeId,
    staging_target_path: stagingPath,
    volume_capability: capability,
  });
}

async function callEach(caller: Caller, name: string): Promise<[ScaledStep, number][]> {
  const { controller, identity } = caller;
  const times: [ScaledStep, number][] = [];
  const timed = async <T>(step: ScaledStep, call: Promise<T>): Promise<T> => {
    const start = performance.now();
    const response = await call;
    times.push([step, performance.now() - start]);
    return response;
  };
  const { volume } = await timed('CreateVolume', create(caller, name));
  await timed('GetCapacity', controller.GetCapacity({ parameters: { pool } }));
  await timed('ListVolumes', controller.ListVolumes({ max_entries: pageEntries }));
  await timed('Probe', identity.Probe({}));
  await timed('DeleteVolume', controller.DeleteVolume({ volume_id: volume?.volume_id ?? '' }));
  return times;
}

function create({ controller }: Caller, name: string) {
  return controller.CreateVolume({
    name,
    capacity_range: { required_bytes: sizeBytes },
    volume_capabilities: [capability],
    parameters: { pool },
  });
}

export function describeScale({ medianMs, usedVolumes, volumes }: ScaleResult): string {
  const rows = scaledSteps.map((step) => {
    const { few, many } = medianMs[step];
    return [step, few.toFixed(2), many.toFixed(2), (many / few).toFixed(2)];
  });
  const many = `${volumes.many} volumes, ${usedVolumes} in use`;
  return table(['ms (p50)', `${volumes.few} volumes`, many, 'ratio'], rows);
}
