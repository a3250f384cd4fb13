import { type ChildProcess, type ExecFileException, execFile } from 'node:child_process';

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

/**
 * Runs a program to its end, without a shell, in the C locale. Node's own execFile: a volume's creation waits for mkfs,
 * and what the richer libraries add around a child takes as long as mkfs itself.
 * @throws CommandError
 */
export function run(
  program: string,
  args: readonly string[],
  { timeoutMs = defaultTimeoutMs, accept = [0], environment = {} }: RunOptions = {},
): Promise<CommandResult> {
  // biome-ignore lint/style/noProcessEnv: a program inherits our environment, whatever is in it
  const env = { ...process.env, ...environment, LC_ALL: 'C' };
  const options = { env, timeout: Math.ceil(timeoutMs), killSignal: 'SIGKILL', maxBuffer: 1 << 20 } as const;
  return new Promise((resolve, reject) => {
    const child = execFile(program, args, options, (error, stdout, stderr) => {
      const exitCode = child.exitCode ?? undefined;
      if (exitCode !== undefined && accept.includes(exitCode)) resolve({ exitCode, stdout, stderr });
      else reject(new CommandError(program, exitCode, failureOf(error, child, timeoutMs), stderr, stdout));
    });
    child.stdin?.end();
  });
}

function failureOf(error: ExecFileException | null, child: ChildProcess, timeoutMs: number): string {
  if (error?.code === 'ENOENT') return 'is not installed';
  if (error?.code === 'ERR_CHILD_PROCESS_STDIO_MAXBUFFER') return 'said more than it has reason to';
  // Only our own time limit makes execFile kill it.
  if (error?.killed === true) return `did not finish within ${timeoutMs / 1000} s`;
  if (child.signalCode !== null) return `was ended by ${child.signalCode}`;
  if (child.exitCode !== null) return `failed with exit code ${child.exitCode}`;
  return `could not be started (${error?.code ?? 'unknown reason'})`;
}

function lastLines(text: string): string {
  return text.trim().split('\n').slice(-3).join(' ').slice(0, 400);
}
