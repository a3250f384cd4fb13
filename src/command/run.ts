import type { ChildProcess } from 'node:child_process';
import type { Readable } from 'node:stream';
import { LineSplitter, OutputEnd } from './output.ts';

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

/** What a program of ours says is a few lines. */
const outputLimitBytes = 1 << 20;

/** How long the outputs of a program that has ended may stay open, as something that it started has them. */
const outputGraceMs = 200;

interface Invocation {
  /** Exit codes that are not failures; fsck(8) reports repairs with 1. */
  readonly accept?: readonly number[];
  /** Variables beside PATH and LC_ALL, which is all that a program gets otherwise. */
  readonly environment?: Readonly<Record<string, string>>;
  /** Names of variables of our own environment that it gets too, where they are set. */
  readonly inherit?: readonly string[];
  /** What it reads; otherwise it has nothing to read. The place for secrets: everybody on the node may read arguments. */
  readonly input?: string | Uint8Array;
  /** Hears each line of both outputs as it comes. */
  readonly onLine?: (line: string, from: 'stdout' | 'stderr') => void;
  /** Of a standard output that is longer than there is room for: its end will do. Otherwise that is an error. */
  readonly keep?: 'all' | 'end';
}

interface Killable {
  readonly mustFinish?: false;
  /** It is killed after that. */
  readonly timeoutMs?: number;
  /** It is killed when whoever asked for it leaves. */
  readonly signal?: AbortSignal;
}

/**
 * For what must not be ended half-way: it is not killed, however long it takes and whoever leaves. It also goes on when
 * the driver dies, where others end at the next word that nobody reads.
 */
interface Unkillable {
  readonly mustFinish: true;
  readonly timeoutMs?: never;
  readonly signal?: never;
}

export type RunOptions = Invocation & (Killable | Unkillable);

/**
 * Runs a program to its end, without a shell, in the C locale, below the root directory. The only door to programs.
 * To start one takes the main thread 2 to 3 ms, as Node copies the process (fork(2)): none belongs on the hot path.
 * @throws CommandError
 */
export async function run(program: string, args: readonly string[], options: RunOptions = {}): Promise<CommandResult> {
  const { accept = [0], input, keep = 'all', mustFinish = false, onLine, signal } = options;
  const timeoutMs = mustFinish ? 0 : (options.timeoutMs ?? defaultTimeoutMs);
  const [file, ...rest] = mustFinish ? [...deafToClosedOutput, program, ...args] : [program, ...args];
  // execa would say it with the argument, Node too.
  if ([file, ...rest].some((word) => word.includes('\0'))) throw notStarted(program, 'EINVAL');
  // Loaded when the first program runs: the start of the driver does not wait for it.
  const { execa } = await import('execa');
  const subprocess = execa(file, rest, {
    cwd: '/',
    env: environmentOf(options),
    extendEnv: false,
    ...(input === undefined ? { stdin: 'ignore' } : { input }),
    buffer: false,
    reject: false,
    timeout: timeoutMs,
    ...(signal !== undefined && { cancelSignal: signal }),
    killSignal: 'SIGKILL',
    forceKillAfterDelay: false,
    // What it began goes on without us, and the next start knows what to make of it.
    cleanup: false,
    // Ctrl-C is meant for the driver.
    detached: mustFinish,
    // NODE_DEBUG would print arguments.
    verbose: 'none',
  });
  const stdout = collect(subprocess.stdout, (line) => onLine?.(line, 'stdout'));
  const stderr = collect(subprocess.stderr, (line) => onLine?.(line, 'stderr'));
  abandonOutput(subprocess.nodeChildProcess, [subprocess.stdout, subprocess.stderr]);
  // Of one that not even SIGKILL ends, because it waits for a dead disk, the end is not in sight, and is not made up.
  const end = await subprocess;
  const { exitCode } = end;
  if (exitCode === undefined && end.signal === undefined) throw notStarted(program, end.code);
  if (mustFinish && exitCode === notFound) throw notStarted(program, 'ENOENT');
  const texts = [stderr.text(), stdout.text()] as const;
  const fail = (reason: string) => new CommandError(program, exitCode, reason, ...texts);
  if (exitCode === undefined || !accept.includes(exitCode)) throw fail(failureOf(end, timeoutMs));
  if (stdout.isCut && keep === 'all') throw fail(`wrote more than ${outputLimitBytes >> 20} MiB, which is too much`);
  return { exitCode, stdout: texts[1], stderr: texts[0] };
}

/**
 * Runs a program for which a write that nobody reads is an error like others, and not its end (signal(7), SIGPIPE). All
 * that Node offers to start a program gives it the default action.
 */
const deafToClosedOutput = ['sh', '-c', 'trap "" PIPE; exec "$@"', 'sh'] as const;
/** The shell's word for it. */
const notFound = 127;

function environmentOf({ environment = {}, inherit = [] }: Invocation): Record<string, string | undefined> {
  // biome-ignore lint/style/noProcessEnv: where programs lie, and what is asked for by name
  const ours = process.env;
  const inherited = inherit.map((name) => [name, ours[name]]);
  return { PATH: ours['PATH'], ...Object.fromEntries(inherited), ...environment, LC_ALL: 'C' };
}

function collect(stream: Readable, onLine: (line: string) => void): OutputEnd {
  const end = new OutputEnd(outputLimitBytes);
  const lines = new LineSplitter(onLine);
  stream.on('data', (chunk: Buffer) => {
    end.add(chunk);
    lines.add(chunk);
  });
  stream.once('end', () => lines.end());
  return end;
}

/**
 * What a program leaves running may have its outputs for as long as it lives. Whatever the program itself wrote is there
 * when it has ended: the loop reads that between the timer and what is set to come after it.
 */
function abandonOutput(child: ChildProcess, streams: readonly Readable[]): void {
  child.once('exit', () => {
    const close = () => {
      for (const stream of streams) stream.destroy();
    };
    const timer = setTimeout(() => setImmediate(close), outputGraceMs);
    child.once('close', () => clearTimeout(timer));
  });
}

function notStarted(program: string, code: string | undefined): CommandError {
  const reason = code === 'ENOENT' ? 'is not installed' : `could not be started (${code ?? 'for no known reason'})`;
  return new CommandError(program, undefined, reason, '');
}

interface Failure {
  readonly exitCode?: number | undefined;
  readonly signal?: string | undefined;
  readonly timedOut: boolean;
  readonly isCanceled: boolean;
}

function failureOf({ exitCode, isCanceled, signal, timedOut }: Failure, timeoutMs: number): string {
  if (timedOut) return `did not finish within ${timeoutMs / 1000} s`;
  if (isCanceled) return 'was cancelled';
  if (exitCode !== undefined) return `failed with exit code ${exitCode}`;
  return `was ended by ${signal}`;
}

function lastLines(text: string): string {
  return text.trim().split('\n').slice(-3).join(' ').slice(0, 160);
}
