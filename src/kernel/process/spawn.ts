import type { DiskQueue } from '../call/disk-queue.ts';
import { KernelError } from '../call/errno.ts';
import { type Argument, callOnWorker, invokeNow, libcCall, type NativeCall } from '../call/libc.ts';
import { MemoryFile } from './memory-file.ts';

/*
 * Starting a program with posix_spawn(3) on a worker thread. Node's child_process copies the whole process on its main
 * thread first (fork(2)), which takes longer than most of the programs we run; this borrows it until the program begins
 * (vfork(2)), and only the one worker thread waits.
 */

export interface Program {
  /** Looked for in this process's PATH. */
  readonly name: string;
  readonly args: readonly string[];
  /** All variables it gets, as `NAME=value`. */
  readonly environment: readonly string[];
  /** It is killed after that. */
  readonly timeoutMs: number;
  /** The most it may write to its standard output, and to its standard error. */
  readonly outputLimitBytes: number;
}

/** How a program ended. */
export interface ProgramEnd {
  /** undefined: a signal ended it. */
  readonly exitCode: number | undefined;
  readonly signal: number | undefined;
  readonly timedOut: boolean;
  readonly stdout: string;
  readonly stderr: string;
}

const POSIX_SPAWN_SETSIGDEF = 0x04;
const POSIX_SPAWN_SETSIGMASK = 0x08;
const O_RDONLY = 0;
const WNOHANG = 1;
const SIGKILL = 9;

/** Room for posix_spawnattr_t and posix_spawn_file_actions_t: 336 and 80 bytes with glibc. */
const structBytes = 512;
/** Of sigset_t. */
const signalSetBytes = 128;

type Strings = readonly (string | null)[];

const spawnCall = libcCall<readonly [Uint8Array, string, Uint8Array, Uint8Array, Strings, Strings]>(
  'int posix_spawnp(void *pid, const char *file, void *actions, void *attributes, const char **argv, const char **envp)',
);
const initActionsCall = libcCall<readonly [Uint8Array]>('int posix_spawn_file_actions_init(void *actions)');
const addOpenCall = libcCall<readonly [Uint8Array, number, string, number, number]>(
  'int posix_spawn_file_actions_addopen(void *actions, int fd, const char *path, int flags, uint mode)',
);
const addDup2Call = libcCall<readonly [Uint8Array, number, number]>(
  'int posix_spawn_file_actions_adddup2(void *actions, int fd, int newFd)',
);
const destroyActionsCall = libcCall<readonly [Uint8Array]>('int posix_spawn_file_actions_destroy(void *actions)');
const initAttributesCall = libcCall<readonly [Uint8Array]>('int posix_spawnattr_init(void *attributes)');
const setFlagsCall = libcCall<readonly [Uint8Array, number]>(
  'int posix_spawnattr_setflags(void *attributes, short flags)',
);
const setMaskCall = libcCall<readonly [Uint8Array, Uint8Array]>(
  'int posix_spawnattr_setsigmask(void *attributes, void *set)',
);
const setDefaultCall = libcCall<readonly [Uint8Array, Uint8Array]>(
  'int posix_spawnattr_setsigdefault(void *attributes, void *set)',
);
const waitCall = libcCall<readonly [number, Uint8Array, number]>('int waitpid(int pid, void *status, int options)');
const killCall = libcCall<readonly [number, number]>('int kill(int pid, int signal)');

/**
 * Runs a program to its end, with nothing to read and no descriptors of ours: all have O_CLOEXEC.
 * @param queue only to start it: while it runs no worker thread waits for it
 * @throws KernelError if it cannot be started: ENOENT if there is no such program
 */
export async function runProgram(queue: DiskQueue, program: Program): Promise<ProgramEnd> {
  using stdout = new MemoryFile('stdout', program.outputLimitBytes);
  using stderr = new MemoryFile('stderr', program.outputLimitBytes);
  const pid = await queue.run(() => stdout.during((out) => stderr.during((err) => start(program, out, err))));
  const ended = endOf(pid);
  let timedOut = false;
  // Again and again, as only this keeps our own process alive until the end is known.
  const timer = setInterval(() => {
    timedOut = true;
    // Its number is no other process's until it has been waited for, and then this timer is gone.
    killCall.native(pid, SIGKILL);
  }, program.timeoutMs);
  // Of one that not even SIGKILL ends, because it waits for a dead disk, the end is not in sight, and is not made up.
  const status = await ended;
  clearInterval(timer);
  const signal = status & 0x7f;
  return {
    exitCode: signal === 0 ? status >> 8 : undefined,
    signal: signal === 0 ? undefined : signal,
    timedOut,
    stdout: stdout.text(),
    stderr: stderr.text(),
  };
}

/** In one piece: what the worker thread reads and names is there until it has done so. */
async function start({ name, args, environment }: Program, stdoutFd: number, stderrFd: number): Promise<number> {
  const actions = Buffer.alloc(structBytes);
  prepare(initActionsCall, [actions]);
  try {
    prepare(addOpenCall, [actions, 0, '/dev/null', O_RDONLY, 0]);
    prepare(addDup2Call, [actions, stdoutFd, 1]);
    prepare(addDup2Call, [actions, stderrFd, 2]);
    const pid = Buffer.alloc(4);
    const strings = [
      [name, ...args, null],
      [...environment, null],
    ] as const;
    const { result } = await callOnWorker(spawnCall, [pid, name, actions, attributes(), ...strings]);
    refuseError(spawnCall.name, result, name);
    return pid.readInt32LE(0);
  } finally {
    prepare(destroyActionsCall, [actions]);
  }
}

/** Changes one of the structures above, in memory. */
function prepare<A extends readonly Argument[]>(call: NativeCall<A>, args: A): void {
  refuseError(call.name, invokeNow(call, args), undefined);
}

/** These functions return the error number itself. */
function refuseError(syscall: string, result: unknown, path: string | undefined): void {
  if (result !== 0) throw new KernelError({ syscall, errno: Number(result), path });
}

let madeAttributes: Buffer | undefined;

/** No signal blocked, none ignored: worker threads block them all, and Node ignores SIGPIPE. */
function attributes(): Buffer {
  if (madeAttributes === undefined) {
    madeAttributes = Buffer.alloc(structBytes);
    prepare(initAttributesCall, [madeAttributes]);
    prepare(setMaskCall, [madeAttributes, Buffer.alloc(signalSetBytes)]);
    prepare(setDefaultCall, [madeAttributes, Buffer.alloc(signalSetBytes, 0xff)]);
    prepare(setFlagsCall, [madeAttributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK]);
  }
  return madeAttributes;
}

/** Programs that run, and who waits for their status. */
const running = new Map<number, (status: number) => void>();

/** The wait status of a child, as soon as the kernel says that one has ended. */
function endOf(pid: number): Promise<number> {
  // Such a listener does not keep the process alive; the interval of the program does.
  if (!process.listeners('SIGCHLD').includes(reap)) process.on('SIGCHLD', reap);
  return new Promise((resolve) => {
    running.set(pid, resolve);
    // It may have ended before anybody listened.
    reap();
  });
}

/** One signal may stand for several children, and some are not ours to wait for: so each of ours is asked for. */
function reap(): void {
  const status = Buffer.alloc(4);
  for (const [pid, resolve] of running) {
    if (waitCall.native(pid, status, WNOHANG) === 0) continue;
    running.delete(pid);
    resolve(status.readInt32LE(0));
  }
}
