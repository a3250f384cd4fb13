import { closeSync, fsyncSync, openSync, writeSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { Child } from './child.ts';

const program = fileURLToPath(new URL('counter-writer.ts', import.meta.url));

/** Starts a process that counts in these files, and waits until it does; it ends on disposal. */
export async function startCounter(paths: readonly string[]): Promise<AsyncDisposable> {
  for (const path of paths) {
    // The block is there for good: filesystems overwrite it in place.
    const file = openSync(path, 'w');
    writeSync(file, Buffer.alloc(4096));
    fsyncSync(file);
    closeSync(file);
  }
  return await Child.start([process.execPath, program, ...paths], { tells: true });
}

/** Whether the counters, in the order of the files, can have been there at one instant. */
export function isOneInstant(counters: readonly bigint[]): boolean {
  const [first = 0n] = counters;
  const last = counters.at(-1) ?? first;
  return (
    counters.every((counter, index) => index === 0 || counter <= (counters[index - 1] ?? 0n)) && first - last <= 1n
  );
}
