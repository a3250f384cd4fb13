/** A program of the host failed, or could not be started. The message has its last words, not its arguments. */
export class CommandError extends Error {
  readonly program: string;
  /** undefined: it never ran, or was killed. */
  readonly exitCode: number | undefined;
  readonly stderr: string;

  constructor(program: string, exitCode: number | undefined, reason: string, stderr: string) {
    super(`${program} ${reason}${stderr === '' ? '' : `: ${lastLines(stderr)}`}`);
    this.name = 'CommandError';
    this.program = program;
    this.exitCode = exitCode;
    this.stderr = stderr;
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

/**
 * Runs a program to its end, without a shell, in the C locale.
 * @throws CommandError
 */
export async function run(
  program: string,
  args: readonly string[],
  { timeoutMs = defaultTimeoutMs, accept = [0], environment = {} }: RunOptions = {},
): Promise<CommandResult> {
  // Loaded when it is first needed: the driver answers its first Probe before it runs any program.
  const { execa } = await import('execa');
  const result = await execa(program, args, {
    reject: false,
    stdin: 'ignore',
    timeout: timeoutMs,
    killSignal: 'SIGKILL',
    env: { ...environment, LC_ALL: 'C' },
    maxBuffer: 1 << 20,
  });
  const { exitCode, stdout, stderr } = result;
  if (exitCode !== undefined && accept.includes(exitCode)) return { exitCode, stdout, stderr };
  throw new CommandError(program, exitCode, failureOf(result, timeoutMs), stderr);
}

interface Failure {
  readonly code?: string | undefined;
  readonly timedOut: boolean;
  readonly exitCode?: number | undefined;
  readonly signal?: string | undefined;
}

function failureOf(failure: Failure, timeoutMs: number): string {
  if (failure.code === 'ENOENT') return 'is not installed';
  if (failure.timedOut) return `did not finish within ${timeoutMs / 1000} s`;
  if (failure.signal !== undefined) return `was ended by ${failure.signal}`;
  if (failure.exitCode !== undefined) return `failed with exit code ${failure.exitCode}`;
  return `could not be started (${failure.code ?? 'unknown reason'})`;
}

function lastLines(text: string): string {
  return text.trim().split('\n').slice(-3).join(' ').slice(0, 400);
}
