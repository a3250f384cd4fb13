import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Usage } from '../../scripts/options.ts';
import { buildDriver } from '../crash/bundle.ts';
import { Caller } from '../crash/caller.ts';
import { type CrashNode, makeNode } from '../crash/crash-node.ts';
import { capacitiesOf, checkEmpty, checkStopped } from '../crash/invariants.ts';
import { SeededRandom } from '../crash/seeded-random.ts';
import { Scratch } from '../support/scratch.ts';
import { Recorder } from './recorder.ts';
import { soakPage } from './report.ts';
import { type Sample, takeSample } from './sampler.ts';

const usage =
  new Usage(`A mixed load of all operations on several pools and filesystems under 8 callers, with kill -9 now and then; a page to
look at, and a verdict. As root: npm run test:soak -- [options]
  --minutes N      how long (10)
  --seed N         repeats the choices of an earlier run
  --output FILE    the page (dist/soak.html)
It ends with 1 if anything was wrong.
`);
const { values } = usage.read({
  options: {
    minutes: { type: 'string', default: '10' },
    seed: { type: 'string' },
    output: { type: 'string', default: 'dist/soak.html' },
  },
});
const minutes = usage.wholeNumber('minutes', values.minutes);
const seed = Number(values.seed ?? Math.floor(Math.random() * 2 ** 32));
const command = `npm run test:soak -- --minutes ${minutes} --seed ${seed}`;
const output = resolve(values.output);
const callerCount = 8;
const sampleIntervalMs = 1_000;
const kills = { leastSeconds: 10, mostSeconds: 40 };

console.log(command);
const startedAt = new Date();
const recorder = new Recorder();
const samples: Sample[] = [];
const killsMs: number[] = [];
const violations: string[] = [];
let callers: readonly Caller[] = [];

{
  using driver = await buildDriver();
  using scratch = new Scratch('soak');
  const decorate = (client: CrashNode['client']) => recorder.record(client);
  await using node = makeNode(driver, scratch, { pools: ['file', 'directory', 'disk'] }, decorate);
  try {
    await soak(node);
  } catch (error) {
    violations.push(error instanceof Error ? error.message : `${error}`);
    console.error(error);
    console.error(node.lastWords());
  }
}

const sum = (count: (caller: Caller) => number) => callers.reduce((total, caller) => total + count(caller), 0);
const facts = {
  minutes: (recorder.elapsedMs / 60_000).toFixed(1),
  seed: `${seed}`,
  calls: `${recorder.calls.length}`,
  'kill -9': `${killsMs.length}`,
  'lives of volumes': `${sum(({ lives }) => lives)}`,
  'calls made again or taken back': `${sum(({ interruptions }) => interruptions)}`,
  pools: 'XFS in a file, a directory on ext4, XFS on a disk',
  volumes: 'ext4, xfs, btrfs, raw block, inline from git; snapshots, groups, clones',
};
mkdirSync(dirname(output), { recursive: true });
const { calls, elapsedMs } = recorder;
writeFileSync(output, soakPage({ command, startedAt, elapsedMs, calls, samples, killsMs, facts, violations }));
for (const [name, value] of Object.entries(facts)) console.log(`${name.padEnd(32)}${value}`);
console.log(`${violations.length === 0 ? 'PASSED' : 'FAILED'}: ${output}`);
process.exitCode = violations.length === 0 ? 0 : 1;

/** Throws what is wrong, once it is seen. */
async function soak(node: CrashNode): Promise<void> {
  const random = new SeededRandom(seed);
  recorder.begin();
  await node.start();
  const capacities = await capacitiesOf(node);
  callers = Array.from({ length: callerCount }, (_, index) => new Caller(node, `caller${index}`, random.fork()));
  const stop = new AbortController();
  const lives = Promise.all(callers.map((caller) => caller.run(stop.signal))).finally(() => stop.abort());
  // Heard of below.
  lives.catch(() => undefined);
  const endsMs = recorder.elapsedMs + minutes * 60_000;
  while (recorder.elapsedMs < endsMs && !stop.signal.aborted) {
    const pauseSeconds = kills.leastSeconds + random.below(kills.mostSeconds - kills.leastSeconds);
    await watch(node, Math.min(endsMs, recorder.elapsedMs + pauseSeconds * 1000), stop.signal);
    if (recorder.elapsedMs >= endsMs || stop.signal.aborted) break;
    killsMs.push(recorder.elapsedMs);
    await node.kill();
    await node.start();
  }
  stop.abort();
  await lives;
  await checkEmpty(node, capacities);
  const ending = await node.stop();
  if (ending?.code !== 0) throw new Error(`the driver was stopped in order, and ended with ${ending?.code}`);
  await checkStopped(node);
}

/** Takes samples until that moment. @throws if the driver ends by itself */
async function watch(node: CrashNode, untilMs: number, signal: AbortSignal): Promise<void> {
  while (recorder.elapsedMs < untilMs && !signal.aborted) {
    if (node.hasEnded) throw new Error('the driver has ended by itself');
    const sample = takeSample(node.pid, recorder.elapsedMs);
    if (sample !== undefined) samples.push(sample);
    await delay(sampleIntervalMs);
  }
}
