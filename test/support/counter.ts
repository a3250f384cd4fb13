import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, fsyncSync, openSync, writeSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

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
  const child = spawn(process.execPath, [program, ...paths], { stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = once(child, 'exit');
  await Promise.race([once(child.stdout, 'data'), ended]);
  if (child.exitCode !== null) throw new Error(`the writer ended with ${child.exitCode}`);
  return {
    async [Symbol.asyncDispose]() {
      child.kill('SIGKILL');
      await ended;
    },
  };
}

/** Whether the counters, in the order of the files, can have been there at one instant. */
export function isOneInstant(counters: readonly bigint[]): boolean {
  const [first = 0n] = counters;
  const last = counters.at(-1) ?? first;
  return (
    counters.every((counter, index) => index === 0 || counter <= (counters[index - 1] ?? 0n)) && first - last <= 1n
  );
}
