import { once } from 'node:events';
import { mkdirSync, renameSync, rmdirSync, symlinkSync, unlinkSync, writeFileSync } from 'node:fs';
import { isMainThread, Worker, workerData } from 'node:worker_threads';

/*
 * Somebody who changes what lies at a path as fast as the kernel lets him, on a thread of his own: now a directory, now a
 * symbolic link out, now another directory, now nothing, now a file.
 */

export interface Swapped {
  /** What is swapped. Not a mount point, which cannot be renamed: its parents, or a target while it is none. */
  readonly paths: readonly string[];
  /** Where the links lead. */
  readonly outside: string;
}

/** How often it has gone round. */
export interface Swapping extends AsyncDisposable {
  readonly rounds: number;
}

const signals = ['SIGINT', 'SIGTERM'] as const;
const haltPatienceMs = 5_000;

/** Swaps until it is disposed of; then what was at the paths first is there again. */
export async function startSwapping(swapped: Swapped): Promise<Swapping> {
  const shared = new SharedArrayBuffer(12);
  const counters = new Int32Array(shared);
  const worker = new Worker(new URL(import.meta.url), { workerData: { swapped, shared } });
  await once(worker, 'online');
  // Whoever ends the tests has the scratch directory cleaned up: its mounts must not move meanwhile.
  const halt = () => {
    Atomics.store(counters, 0, 1);
    Atomics.wait(counters, 2, 0, haltPatienceMs);
  };
  for (const signal of signals) process.prependOnceListener(signal, halt);
  return {
    get rounds() {
      return Atomics.load(counters, 1);
    },
    async [Symbol.asyncDispose]() {
      const ended = once(worker, 'exit');
      Atomics.store(counters, 0, 1);
      await ended;
      for (const signal of signals) process.off(signal, halt);
    },
  };
}

function attempt(change: () => void): void {
  try {
    change();
  } catch (error) {
    // The driver was there first, or has it in use.
    if (!(error instanceof Error && 'syscall' in error)) throw error;
  }
}

function swap(path: string, outside: string): void {
  const aside = `${path}.aside`;
  attempt(() => renameSync(path, aside));
  attempt(() => symlinkSync(outside, path));
  attempt(() => unlinkSync(path));
  attempt(() => mkdirSync(path));
  attempt(() => rmdirSync(path));
  attempt(() => writeFileSync(path, '', { flag: 'wx' }));
  attempt(() => unlinkSync(path));
  attempt(() => symlinkSync('.', path));
  attempt(() => unlinkSync(path));
  attempt(() => renameSync(aside, path));
}

if (!isMainThread) {
  const { shared, swapped } = workerData as { shared: SharedArrayBuffer; swapped: Swapped };
  const counters = new Int32Array(shared);
  while (Atomics.load(counters, 0) === 0) {
    for (const path of swapped.paths) swap(path, swapped.outside);
    Atomics.add(counters, 1, 1);
  }
  Atomics.store(counters, 2, 1);
  Atomics.notify(counters, 2);
}
