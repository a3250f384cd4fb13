import { constants } from 'node:fs';
import type { DiskQueue } from './disk-queue.ts';
import { KernelError } from './errno.ts';
import { type Argument, callOnWorker, invoke, type Lent, libcCall, type NativeCall } from './libc.ts';

/** Not in node:fs; the same number on x86_64 and arm64 (asm-generic/fcntl.h). */
export const openFlags = { O_PATH: 0o10000000, O_CLOEXEC: 0o2000000 } as const;

const closeCall = libcCall<readonly [number]>('int close(int fd)');
const openCall = libcCall<readonly [string | Lent, number, number]>('int open(const char *path, int flags, uint mode)');

const EBADF = 9;

/**
 * An open file descriptor that belongs to the holder of this object: `await using`. In a function that has one, `return
 * work(descriptor)` closes it while the work continues; write `return await`.
 *
 * As soon as it is closed, the kernel may give its number to another file. A call on a disk that hangs continues after
 * its caller has left, and a call that is still queued would meet the other file. So only calls in progress have the
 * number, and the descriptor is closed after the last of them.
 */
export class Descriptor implements AsyncDisposable, Lent {
  /** The path at opening, for messages. */
  readonly path: string;
  readonly #fd: number;
  readonly #closingQueue: DiskQueue | undefined;
  #users = 0;
  /** No new call may use it. */
  #isGivenUp = false;

  /**
   * @param closingQueue undefined if closing can never wait for a disk, as with O_PATH: then it closes on this thread
   */
  constructor(fd: number, path: string, closingQueue: DiskQueue | undefined) {
    this.#fd = fd;
    this.path = path;
    this.#closingQueue = closingQueue;
  }

  lend(): number {
    if (this.#isGivenUp) throw new KernelError({ syscall: 'use', errno: EBADF, path: this.path });
    this.#users++;
    return this.#fd;
  }

  giveBack(): void {
    this.#users--;
    if (this.#isGivenUp && this.#users === 0) void this.#close();
  }

  /** A path for calls: it names the open file itself, even after a rename or deletion (proc(5)). */
  get asPath(): Lent {
    return this.#below('');
  }

  /** The same for a name in an open directory. */
  child(name: string): Lent {
    return this.#below(`/${name}`);
  }

  /** Runs `work` with the path or number. The descriptor stays open until it has ended. */
  async during<T>(work: (procPath: string, fd: number) => Promise<T>): Promise<T> {
    const fd = this.lend();
    try {
      return await work(procPath(fd), fd);
    } finally {
      this.giveBack();
    }
  }

  /** Waits until it is closed, but not for a call that still uses it: the last such call closes it. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.#giveUp() ? this.#close() : Promise.resolve();
  }

  /** Closes in the background: for descriptors whose data is synced and whose closing nothing waits for. */
  closeLater(): void {
    void this[Symbol.asyncDispose]();
  }

  /** Closes on this thread: for files that something else (a mount, a loop device) keeps open. */
  closeNow(): void {
    if (this.#giveUp()) closeCall.native(this.#fd);
  }

  /** @returns true if it must be closed now */
  #giveUp(): boolean {
    const isFirst = !this.#isGivenUp;
    this.#isGivenUp = true;
    return isFirst && this.#users === 0;
  }

  #close(): Promise<void> {
    // close(2): the descriptor is gone even if it fails, and all writes through descriptors are synced.
    if (this.#closingQueue !== undefined) return this.#closingQueue.settle(() => callOnWorker(closeCall, [this.#fd]));
    closeCall.native(this.#fd);
    return Promise.resolve();
  }

  #below(rest: string): Lent {
    return { lend: () => procPath(this.lend()) + rest, giveBack: () => this.giveBack() };
  }
}

function procPath(fd: number): string {
  return `/proc/self/fd/${fd}`;
}

/** A system call that returns a descriptor, which is closed if its caller has stopped waiting. */
export function invokeToOpen<A extends readonly Argument[]>(
  queue: DiskQueue,
  call: NativeCall<A>,
  args: A,
  path?: string,
): Promise<number> {
  return invoke(queue, call, args, path, ({ result }) => {
    if (typeof result === 'number' && result >= 0) void queue.settle(() => callOnWorker(closeCall, [result]));
  });
}

/** A path, or an open file to open again. */
export type Openable = string | Descriptor;

/** open(2), always with O_CLOEXEC. */
export async function openFile(queue: DiskQueue, file: Openable, flags: number, mode = 0): Promise<Descriptor> {
  const [path, where] = typeof file === 'string' ? [file, file] : [file.asPath, file.path];
  const fd = await invokeToOpen(queue, openCall, [path, flags | openFlags.O_CLOEXEC, mode], where);
  return new Descriptor(fd, where, (flags & openFlags.O_PATH) === 0 ? queue : undefined);
}

/** Opens for reading, an ioctl or an fsync. Never waits for the other end of a FIFO. */
export function openReadOnly(queue: DiskQueue, file: Openable): Promise<Descriptor> {
  return openFile(queue, file, constants.O_RDONLY | constants.O_NONBLOCK);
}
