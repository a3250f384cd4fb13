import { type ChildProcess, fork } from 'node:child_process';

/**
 * Starts this program a second time, as a process that messages are exchanged with. It inherits none of our files: a
 * process that hangs in the kernel keeps them open, and a reader of our output would wait for its end.
 */
export function startAgain(
  args: readonly string[],
  environment: Readonly<Record<string, string | undefined>>,
): ChildProcess {
  return fork(process.argv[1] ?? '', args, {
    env: environment,
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    // This serialization has bigint.
    serialization: 'advanced',
  });
}
