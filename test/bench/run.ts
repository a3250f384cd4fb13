import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { availableParallelism, release } from 'node:os';
import { buildBundle } from '../../scripts/build.ts';
import { Usage } from '../../scripts/options.ts';
import { connectDriver } from '../support/client.ts';
import { Scratch } from '../support/scratch.ts';
import { connectCaller } from './caller.ts';
import { measureCreations } from './creations.ts';
import { measureDataPath } from './data/data-path.ts';
import { whyNoMachine } from './devices/devices-node.ts';
import { type DevicesPlan, measureDevices } from './devices/measure.ts';
import { devicesPlans } from './devices/plans.ts';
import { DriverPlaces, DriverProcess, pools } from './driver-process.ts';
import { hasFio } from './fio.ts';
import { judge, missedGoals } from './goals.ts';
import { interruption } from './interruption.ts';
import { type LifecyclePlan, type LifecycleResult, measureLifecycles } from './lifecycles.ts';
import { measureMemory } from './memory.ts';
import { describeResult } from './report.ts';
import { type BenchResult, notAskedFor } from './result.ts';
import { measureScale, type ScalePlan } from './scale/scale.ts';
import { measureSnapshots } from './snapshots.ts';
import { awaitReady, measureStartup } from './startup.ts';

interface Plan {
  readonly lifecycles: LifecyclePlan;
  readonly starts: number;
  readonly memoryLives: number;
  readonly creations: number;
  readonly cuts: number;
  readonly scale: Pick<ScalePlan, 'rounds' | 'starts'>;
  readonly data: { readonly rounds: number; readonly seconds: number };
  readonly devices: DevicesPlan;
}

const plans = {
  quick: {
    lifecycles: { rounds: 4, lives: { floor: 15, one: 15, many: 48 } },
    starts: 5,
    memoryLives: 500,
    creations: 50,
    cuts: 10,
    scale: { rounds: 50, starts: 4 },
    data: { rounds: 1, seconds: 2 },
    devices: devicesPlans.quick,
  },
  usual: {
    lifecycles: { rounds: 15, lives: { floor: 25, one: 25, many: 80 } },
    starts: 10,
    memoryLives: 2000,
    creations: 100,
    cuts: 30,
    scale: { rounds: 200, starts: 8 },
    data: { rounds: 3, seconds: 3 },
    devices: devicesPlans.usual,
  },
  full: {
    lifecycles: { rounds: 40, lives: { floor: 25, one: 25, many: 80 } },
    starts: 20,
    memoryLives: 5000,
    creations: 200,
    cuts: 60,
    scale: { rounds: 400, starts: 12 },
    data: { rounds: 5, seconds: 5 },
    devices: devicesPlans.full,
  },
} as const satisfies Record<string, Plan>;

const scaleVolumes = { few: 100, many: 10_000 } as const;
const usedVolumes = 500;

const noFio = 'fio is not installed (apt-get install fio)';

const usage = new Usage(`Measures the driver beside the raw system calls. As root: npm run bench -- [options]
  --quick      a minute, for a first look
  --full       long: more rounds, 5000 lives for the memory
  --data       the data path as well, with fio: on this machine, and of block volumes in a virtual machine, which takes ten minutes
               (part of --full; npm run bench:devices is the latter alone)
  --scale      10000 volumes, 500 of them in use, beside 100 as well (part of --full; npm run bench:scale is this alone): three minutes
  --check      ends with 1 if a goal is missed, or could not be measured
  --json FILE  the result for programs
`);

interface Extent {
  readonly withData: boolean;
  readonly withScale: boolean;
}

async function bench(plan: Plan, { withData, withScale }: Extent, signal: AbortSignal): Promise<BenchResult> {
  using scratch = new Scratch('bench');
  const say = (text: string) => process.stderr.write(`bench: ${text}\n`);
  const { file: bundle } = await buildBundle(scratch.join('dist'));
  const places = new DriverPlaces(scratch);
  const lifecycles: LifecycleResult[] = [];
  let dataPath: BenchResult['dataPath'] = notAskedFor;
  let devices: BenchResult['devices'] = notAskedFor;
  let snapshots: BenchResult['snapshots'] = noFio;
  let creations: BenchResult['creations'];
  {
    await using driver = new DriverProcess(places, bundle);
    await awaitReady(driver, places);
    using client = connectDriver(places.socket);
    using caller = connectCaller(places.socket);
    for (const pool of pools) {
      say(`lives, pool '${pool}'`);
      lifecycles.push(await measureLifecycles({ scratch, places, caller, pool, plan: plan.lifecycles, signal }));
    }
    say('creations');
    creations = await measureCreations(caller, plan.creations, signal);
    if (await hasFio()) {
      say('snapshots');
      snapshots = await measureSnapshots({ places, driver, client, cuts: plan.cuts, signal });
    }
  }
  if (withData) {
    say('data path');
    dataPath = (await hasFio()) ? await measureDataPath(bundle, plan.data, signal) : noFio;
  }
  say('starts');
  const startup = await measureStartup(places, bundle, plan.starts, signal);
  say(`memory over ${plan.memoryLives} lives`);
  const memory = await measureMemory(places, bundle, plan.memoryLives, signal);
  let scale: BenchResult['scale'] = 'not asked for (--scale)';
  if (withScale) {
    say(`${scaleVolumes.many} volumes beside ${scaleVolumes.few}`);
    scale = await measureScale(bundle, { ...plan.scale, volumes: scaleVolumes, usedVolumes }, signal);
  }
  const machine = describeMachine(scratch.path);
  if (withData) {
    say('block volumes, in a virtual machine');
    devices = whyNoMachine() ?? (await measureDevices(plan.devices, say));
  }
  return { machine, lifecycles, creations, startup, memory, snapshots, scale, dataPath, devices };
}

function describeMachine(path: string): BenchResult['machine'] {
  const filesystem = execFileSync('stat', ['--file-system', '--format=%T', path], { encoding: 'utf8' }).trim();
  const model = /^model name\s*: (.*)$/m.exec(readFileSync('/proc/cpuinfo', 'utf8'))?.[1];
  return {
    processors: availableParallelism(),
    kernel: release(),
    node: process.version,
    filesystem: model === undefined ? filesystem : `${filesystem}, ${model}`,
  };
}

async function main(): Promise<void> {
  const { values } = usage.read({
    options: {
      quick: { type: 'boolean', default: false },
      full: { type: 'boolean', default: false },
      data: { type: 'boolean', default: false },
      scale: { type: 'boolean', default: false },
      check: { type: 'boolean', default: false },
      json: { type: 'string' },
    },
  });
  if (process.getuid?.() !== 0) throw new Error('must be run as root: it mounts filesystems');
  const plan = values.quick ? plans.quick : values.full ? plans.full : plans.usual;
  const result = await bench(
    plan,
    { withData: values.data || values.full, withScale: values.scale || values.full },
    interruption(),
  );
  const goals = judge(result);
  process.stdout.write(`${describeResult(result, goals)}\n`);
  if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify({ ...result, goals }, null, 2)}\n`);
  if (!values.check) return;
  const missed = missedGoals(result, goals);
  for (const words of missed) process.stderr.write(`bench: missed: ${words}\n`);
  if (missed.length > 0) process.exitCode = 1;
}

try {
  await main();
} catch (error) {
  process.stderr.write(`bench: ${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
}
