import { readFileSync } from 'node:fs';
import type { Kubernetes } from './kubernetes.ts';

/** Of sysconf(3), as on every machine that Linux runs on today. */
const ticksPerSecond = 100;

/** What something cost, from its beginning to its end. */
export interface Load {
  readonly seconds: number;
  /** Requests to the API server a second, of everybody but the bench. */
  readonly requestsPerSecond: number;
  /** Share of one processor, by the name of the process. */
  readonly processor: Readonly<Record<string, number>>;
  /** The most resident memory since the process has started, likewise. */
  readonly mostMebibytes: Readonly<Record<string, number>>;
}

/** Measures what the work costs the API server and these processes. */
export async function loadOf(
  kubernetes: Kubernetes,
  processes: Readonly<Record<string, number>>,
  work: () => Promise<unknown>,
): Promise<Load> {
  const before = await kubernetes.requestsOfOthers();
  const ticks = mapValues(processes, ticksOf);
  const startMs = performance.now();
  await work();
  const seconds = (performance.now() - startMs) / 1000;
  return {
    seconds,
    requestsPerSecond: ((await kubernetes.requestsOfOthers()) - before) / seconds,
    processor: mapValues(processes, (pid, name) => (ticksOf(pid) - (ticks[name] ?? 0)) / ticksPerSecond / seconds),
    mostMebibytes: mapValues(processes, mostMebibytesOf),
  };
}

function ticksOf(pid: number): number {
  // The second field is the name, which may have spaces in it.
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
  return Number(fields[11]) + Number(fields[12]);
}

function mostMebibytesOf(pid: number): number {
  return Number(/^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024;
}

function mapValues<T>(
  values: Readonly<Record<string, T>>,
  change: (value: T, name: string) => number,
): Record<string, number> {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, change(value, name)]));
}
