import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';

/**
 * From now on the kernel deals with the system calls of a process as strace(1) is told (`fsync:error=EIO`), until disposed
 * of; with those on these files only, if there are any.
 */
export async function inject(pid: number, what: string, paths: readonly string[] = []): Promise<AsyncDisposable> {
  const options = ['-f', '-p', `${pid}`, '-e', `inject=${what}`, ...paths.flatMap((path) => ['-P', path])];
  const strace = spawn('strace', options, { stdio: ['ignore', 'ignore', 'pipe'] });
  for await (const line of createInterface(strace.stderr)) if (line.includes('attached')) break;
  // What it says from now on is nobody's business, but it must be able to say it.
  strace.stderr.resume();
  return {
    async [Symbol.asyncDispose]() {
      const ended = once(strace, 'exit');
      strace.kill('SIGINT');
      await ended;
    },
  };
}
