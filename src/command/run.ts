import type { ChildProcess } from 'node:child_process';
import type { Readable } from 'node:stream';
import { StringDecoder } from 'node:string_decoder';
import { LineSplitter, OutputEnd } from './output.ts';

/** A program failed, or could not be started. The message has its last output, not its arguments. */
export class CommandError extends Error {
  readonly program: string;
  /** undefined: it did not run, or was killed. */
  readonly exitCode: number | undefined;
  readonly stderr: string;
  readonly stdout: string;
  /** Set by `run`, for callers that must not look at words which a program may have written. */
  limit: 'time' | 'output' | undefined;

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

/** Long enough for mkfs on the largest disk; a program that takes longer hangs on a dead disk. */
const defaultTimeoutMs = 10 * 60_000;

/** The programs that we run print a few lines. */
const usualOutputLimitBytes = 1 << 20;

/** Others' programs may say more on standard error than is kept, and no more than this. */
const errorFloodBytes = 16 << 20;

/** Time for which the outputs of a program may stay open after its end, because a process that it started has them. */
const outputGraceMs = 200;

interface Invocation {
  /** Exit codes that are not failures; fsck(8) reports repairs with 1. */
  readonly accept?: readonly number[];
  /** Variables besides PATH and LC_ALL, the only ones that every program gets. */
  readonly environment?: Readonly<Record<string, string>>;
  /** Names of variables to pass on from our environment, where they are set. */
  readonly inherit?: readonly string[];
  /** Standard input; absent: empty. Secrets go here: every user on the node may read arguments. */
  readonly input?: string | Uint8Array;
  /** Gets each line of both outputs as it comes. */
  readonly onLine?: (line: string, from: 'stdout' | 'stderr') => void;
  /** Gets standard output in pieces as it comes, complete even for long lines; `onLine` cuts those. */
  readonly onText?: (text: string) => void;
  /** `end`: keeps the end of a standard output that is too long. `all`: too long an output is an error. */
  readonly keep?: 'all' | 'end';
  /** The limit of each output, 1 MiB. */
  readonly outputLimitBytes?: number;
}

interface Killable {
  readonly mustFinish?: false;
  readonly inGroup?: false;
  readonly lockPath?: never;
  /** The program is killed after this time. */
  readonly timeoutMs?: number;
  /** The program is killed when this is aborted. */
  readonly signal?: AbortSignal;
}

/**
 * A program that must not be interrupted: it is never killed, however long it takes. It also continues when the driver
 * dies, where other programs end at their next write to a pipe without a reader.
 */
interface Unkillable {
  readonly mustFinish: true;
  readonly inGroup?: false;
  /**
   * A file that is locked, as by flock(1), until the program ends: the successor of a driver that died can wait for
   * that.
   */
  readonly lockPath?: string;
  readonly timeoutMs?: never;
  readonly signal?: never;
}

/**
 * A program of other people's: it and all processes of its group are killed at its deadline, also if the driver dies
 * before that. So they are if they write too much: to read without end would take the main thread until then. A process
 * that it leaves behind in another session (a daemon) is not.
 */
interface Grouped {
  readonly mustFinish?: false;
  readonly inGroup: true;
  readonly timeoutMs: number;
  /** Locked, as by flock(1), until the program ends. Waiting for it is part of the time. */
  readonly lockPath: string;
  readonly signal?: never;
}

export type RunOptions = Invocation & (Killable | Unkillable | Grouped);

/**
 * Runs a program to its end, without a shell, in the C locale, in the root directory. This is the only door to
 * programs. Starting one takes the main thread 2 to 3 ms, as Node copies the process (fork(2)): none belongs on the hot
 * path.
 * @throws CommandError
 */
export async function run(program: string, args: readonly string[], options: RunOptions = {}): Promise<CommandResult> {
  const { accept = [0], inGroup = false, input, keep = 'all', mustFinish = false, onLine, onText, signal } = options;
  const { outputLimitBytes = usualOutputLimitBytes } = options;
  const timeoutMs = mustFinish ? 0 : (options.timeoutMs ?? defaultTimeoutMs);
  const [file = program, ...rest] = [...wrappersOf(options, timeoutMs), program, ...args];
  // Both execa and Node would repeat the argument in their error.
  if ([file, ...rest].some((word) => word.includes('\0'))) throw notStarted(program, 'EINVAL');
  // Loaded when the first program runs, so that the driver starts faster.
  const { execa } = await import('execa');
  const startedMs = performance.now();
  const subprocess = execa(file, rest, {
    cwd: '/',
    env: environmentOf(options),
    extendEnv: false,
    ...(input === undefined ? { stdin: 'ignore' } : { input }),
    buffer: false,
    reject: false,
    // A group is killed by its own timeout(1).
    timeout: inGroup ? 0 : timeoutMs,
    ...(signal !== undefined && { cancelSignal: signal }),
    killSignal: 'SIGKILL',
    forceKillAfterDelay: false,
    // Lets the program finish without us; the next start handles its result.
    cleanup: false,
    // Only the driver gets Ctrl-C.
    detached: mustFinish || inGroup,
    // NODE_DEBUG would print arguments.
    verbose: 'none',
  });
  const stdout = collect(subprocess.stdout, outputLimitBytes, (line) => onLine?.(line, 'stdout'));
  const stderr = collect(subprocess.stderr, outputLimitBytes, (line) => onLine?.(line, 'stderr'));
  if (onText !== undefined) listen(subprocess.stdout, onText);
  let floodBytes: number | undefined;
  const flooded = (limitBytes: number) => {
    floodBytes ??= limitBytes;
    const { exitCode, signalCode } = subprocess.nodeChildProcess;
    // After its end the number may be another process's.
    if (inGroup && exitCode === null && signalCode === null) killGroup(subprocess.pid);
  };
  if (keep === 'all') onceLonger(subprocess.stdout, outputLimitBytes, flooded);
  if (inGroup) onceLonger(subprocess.stderr, errorFloodBytes, flooded);
  abandonOutput(subprocess.nodeChildProcess, [subprocess.stdout, subprocess.stderr]);
  // A program that waits for a dead disk does not end even by SIGKILL. Its exit code is not known, so none is reported.
  const ended = await subprocess;
  // timeout(1) kills itself with its group.
  const timedOut = inGroup ? ended.signal === 'SIGKILL' && performance.now() - startedMs >= timeoutMs : ended.timedOut;
  const end = { ...ended, timedOut };
  const { exitCode } = end;
  if (exitCode === undefined && end.signal === undefined) throw notStarted(program, end.code);
  if (inGroup && exitCode !== 0) killGroup(subprocess.pid);
  if (mustFinish && exitCode === notFound) throw notStarted(program, 'ENOENT');
  const texts = [stderr.text(), stdout.text()] as const;
  const fail = (reason: string, limit?: CommandError['limit']) =>
    Object.assign(new CommandError(program, exitCode, reason, ...texts), { limit });
  const isFailure = exitCode === undefined || !accept.includes(exitCode);
  if (floodBytes !== undefined && !timedOut && (inGroup || !isFailure))
    throw fail(`wrote more than ${sizeInWords(floodBytes)}, which is too much`, 'output');
  if (isFailure) throw fail(failureOf(end, timeoutMs), timedOut ? 'time' : undefined);
  return { exitCode, stdout: texts[1], stderr: texts[0] };
}

/**
 * Runs a program that ignores SIGPIPE (signal(7)): a write to a pipe without a reader is an error then, and does not
 * kill it. Node always starts programs with the default action.
 */
const deafToClosedOutput = ['sh', '-c', 'trap "" PIPE; exec "$@"', 'sh'] as const;
/** The exit code of a shell for a program that is not there. */
const notFound = 127;

function wrappersOf({ inGroup, lockPath, mustFinish }: RunOptions, timeoutMs: number): string[] {
  const locked = lockPath === undefined ? [] : ['flock', '--close', lockPath];
  if (inGroup) return ['timeout', '--signal', 'KILL', `${timeoutMs / 1000}`, ...locked];
  return mustFinish ? [...deafToClosedOutput, ...locked] : [];
}

/** Nothing of a program that failed may continue. Its process has been its group's leader (setsid(2)). */
function killGroup(pid: number | undefined): void {
  try {
    if (pid !== undefined) process.kill(-pid, 'SIGKILL');
  } catch {
    // Nothing is left of it.
  }
}

function environmentOf({ environment = {}, inherit = [] }: Invocation): Record<string, string | undefined> {
  // biome-ignore lint/style/noProcessEnv: PATH, and the variables that a caller names
  const ours = process.env;
  const inherited = inherit.map((name) => [name, ours[name]]);
  return { PATH: ours['PATH'], ...Object.fromEntries(inherited), ...environment, LC_ALL: 'C' };
}

function collect(stream: Readable, outputLimitBytes: number, onLine: (line: string) => void): OutputEnd {
  const end = new OutputEnd(outputLimitBytes);
  const lines = new LineSplitter(onLine);
  stream.on('data', (chunk: Buffer) => {
    end.add(chunk);
    lines.add(chunk);
  });
  stream.once('end', () => lines.end());
  return end;
}

/** Calls `then` when the stream has had more bytes than that. */
function onceLonger(stream: Readable, limitBytes: number, then: (limitBytes: number) => void): void {
  let bytes = 0;
  stream.on('data', (chunk: Buffer) => {
    const before = bytes;
    bytes += chunk.length;
    if (before <= limitBytes && bytes > limitBytes) then(limitBytes);
  });
}

function listen(stream: Readable, onText: (text: string) => void): void {
  // A character may come in two pieces.
  const decoder = new StringDecoder('utf8');
  stream.on('data', (chunk: Buffer) => onText(decoder.write(chunk)));
}

/**
 * A process that a program leaves running may hold its outputs for its whole life. The program's own output is complete
 * when it has ended: the event loop reads it between the timer and the callback that is set after it.
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

function sizeInWords(bytes: number): string {
  return bytes < 1 << 20 ? `${bytes >> 10} KiB` : `${bytes >> 20} MiB`;
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
