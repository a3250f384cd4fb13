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
 * An open file descriptor that belongs to whoever holds this object: `await using`. In a function that has one,
 * `return work(descriptor)` closes it while the work goes on; write `return await`.
 *
 * Its number is the kernel's to give to the next file as soon as it is closed. So nobody has it but the calls that are at
 * work with it, and it is closed after the last of them: a call on a disk that hangs goes on when nobody waits for it
 * any more, and one that is still queued would meet another file.
 */
export class Descriptor implements AsyncDisposable, Lent {
  /** Where it was found, for messages. */
  readonly path: string;
  readonly #fd: number;
  readonly #closingQueue: DiskQueue | undefined;
  #users = 0;
  /** Nobody else may begin to use it. */
  #isGivenUp = false;

  /** @param closingQueue undefined if closing can never wait for a disk, as with O_PATH: then it is done on the spot */
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

  /** For a call that takes a path: one that names the very thing that is open, whatever happened to its name (proc(5)). */
  get asPath(): Lent {
    return this.#below('');
  }

  /** The same for a name in a directory that is open. */
  child(name: string): Lent {
    return this.#below(`/${name}`);
  }

  /** Does something with the path or the number of what is open, which stays open until that is done. */
  async during<T>(work: (procPath: string, fd: number) => Promise<T>): Promise<T> {
    const fd = this.lend();
    try {
      return await work(procPath(fd), fd);
    } finally {
      this.giveBack();
    }
  }

  /** Waits until it is closed, but not for a call that is still at work with it: that one will close it. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#giveUp()) await this.#close();
  }

  /** Closes while the caller goes on: right where nothing depends on when, and what was written has been synced. */
  closeLater(): void {
    void this[Symbol.asyncDispose]();
  }

  /** Closes without a worker thread: right where something else (a mount, a loop device) keeps the file open. */
  closeNow(): void {
    if (this.#giveUp()) closeCall.native(this.#fd);
  }

  /** @returns whether it is to be closed now */
  #giveUp(): boolean {
    const isFirst = !this.#isGivenUp;
    this.#isGivenUp = true;
    return isFirst && this.#users === 0;
  }

  async #close(): Promise<void> {
    // close(2): the descriptor is gone whatever it returns, and nothing here is written through one without a sync.
    if (this.#closingQueue === undefined) closeCall.native(this.#fd);
    else await this.#closingQueue.settle(() => callOnWorker(closeCall, [this.#fd]));
  }

  #below(rest: string): Lent {
    return { lend: () => procPath(this.lend()) + rest, giveBack: () => this.giveBack() };
  }
}

function procPath(fd: number): string {
  return `/proc/self/fd/${fd}`;
}

/** A system call that returns a file descriptor: if nobody waits for it any more when it does, it is closed. */
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

/** A file that is to be opened: where it is, or something that is open already and is opened anew. */
export type Openable = string | Descriptor;

/** open(2), always with O_CLOEXEC. */
export async function openFile(queue: DiskQueue, file: Openable, flags: number, mode = 0): Promise<Descriptor> {
  const [path, where] = typeof file === 'string' ? [file, file] : [file.asPath, file.path];
  const fd = await invokeToOpen(queue, openCall, [path, flags | openFlags.O_CLOEXEC, mode], where);
  return new Descriptor(fd, where, (flags & openFlags.O_PATH) === 0 ? queue : undefined);
}

/** Opens to read, or to send an ioctl or an fsync to. Never waits for the other end of a FIFO. */
export function openReadOnly(queue: DiskQueue, file: Openable): Promise<Descriptor> {
  return openFile(queue, file, constants.O_RDONLY | constants.O_NONBLOCK);
}
