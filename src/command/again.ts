import { type ChildProcess, fork } from 'node:child_process';

/**
 * Starts this program a second time, as a process to send messages to and to hear them from. It has none of our files:
 * a process that hangs in the kernel keeps what it has open, and whoever reads our output waits for its end.
 */
export function startAgain(
  args: readonly string[],
  environment: Readonly<Record<string, string | undefined>>,
): ChildProcess {
  return fork(process.argv[1] ?? '', args, {
    env: environment,
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    // Has bigint.
    serialization: 'advanced',
  });
}
