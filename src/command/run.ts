import { constants } from 'node:os';
import { DiskQueue } from '../kernel/call/disk-queue.ts';
import { isErrno, KernelError } from '../kernel/call/errno.ts';
import { type ProgramEnd, runProgram } from '../kernel/process/spawn.ts';

/** A program of the host failed, or could not be started. The message has its last words, not its arguments. */
export class CommandError extends Error {
  readonly program: string;
  /** undefined: it never ran, or was killed. */
  readonly exitCode: number | undefined;
  readonly stderr: string;
  readonly stdout: string;

  constructor(program: string, exitCode: number | undefined, reason: string, stderr: string, stdout = '') {
    super(`${program} ${reason}${stderr === '' ? '' : `: ${lastLines(stderr)}`}`);
    this.name = 'CommandError';
    this.program = program;
    this.exitCode = exitCode;
    this.stderr = stderr;
    this.stdout = stdout;
  }
}

export interface CommandResult {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Long enough for mkfs of the largest disk; a program that takes longer hangs on a dead one. */
const defaultTimeoutMs = 10 * 60_000;

export interface RunOptions {
  readonly timeoutMs?: number;
  /** Exit codes that are not failures; fsck(8) reports repairs with 1. */
  readonly accept?: readonly number[];
  /** Variables that differ from the driver's own; undefined: not set. */
  readonly environment?: Readonly<Record<string, string | undefined>>;
}

/** What a program of ours says is a few lines. */
const outputLimitBytes = 1 << 20;

/** For the moment in which a program is read from the host's own disk; then it runs without a thread of ours. */
const starts = new DiskQueue('programs', 2);

/**
 * Runs a program to its end, without a shell, in the C locale. Not by Node's child_process: a volume's creation waits
 * for mkfs, and what Node does to start it takes as long as mkfs itself (src/kernel/process/spawn.ts).
 * @throws CommandError
 */
export async function run(
  program: string,
  args: readonly string[],
  { timeoutMs = defaultTimeoutMs, accept = [0], environment = {} }: RunOptions = {},
): Promise<CommandResult> {
  // biome-ignore lint/style/noProcessEnv: a program inherits our environment, whatever is in it
  const variables = Object.entries({ ...process.env, ...environment, LC_ALL: 'C' });
  const end = await runProgram(starts, {
    name: program,
    args,
    environment: variables.flatMap(([name, value]) => (value === undefined ? [] : [`${name}=${value}`])),
    timeoutMs,
    outputLimitBytes,
  }).catch((error) => {
    throw new CommandError(program, undefined, startFailure(error), '');
  });
  const { exitCode, stderr, stdout } = end;
  if (exitCode !== undefined && accept.includes(exitCode)) return { exitCode, stdout, stderr };
  throw new CommandError(program, exitCode, failureOf(end, timeoutMs), stderr, stdout);
}

function startFailure(error: unknown): string {
  if (isErrno(error, 'ENOENT')) return 'is not installed';
  return `could not be started (${error instanceof KernelError ? error.code : error})`;
}

function failureOf({ exitCode, signal, timedOut }: ProgramEnd, timeoutMs: number): string {
  if (timedOut) return `did not finish within ${timeoutMs / 1000} s`;
  if (exitCode !== undefined) return `failed with exit code ${exitCode}`;
  const [name] = Object.entries(constants.signals).find(([, number]) => number === signal) ?? [];
  return `was ended by ${name ?? `signal ${signal}`}`;
}

function lastLines(text: string): string {
  return text.trim().split('\n').slice(-3).join(' ').slice(0, 160);
}
