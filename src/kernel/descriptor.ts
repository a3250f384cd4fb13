import { constants } from 'node:fs';
import type { Lane } from './lane.ts';
import { type Argument, callOnWorker, invoke, libcCall, type NativeCall } from './libc.ts';

/** Not in node:fs; the same number on x86_64 and arm64 (asm-generic/fcntl.h). */
export const openFlags = { O_PATH: 0o10000000, O_CLOEXEC: 0o2000000 } as const;

const closeCall = libcCall<readonly [number]>('int close(int fd)');
const openCall = libcCall<readonly [string, number, number]>('int open(const char *path, int flags, uint mode)');

/**
 * An open file descriptor that belongs to whoever holds this object: `await using`. In a function that has one,
 * `return work(descriptor)` closes it while the work goes on; write `return await`.
 */
export class Descriptor implements AsyncDisposable {
  readonly fd: number;
  /** Where it was found, for messages. */
  readonly path: string;
  readonly #closingLane: Lane | undefined;
  #isOpen = true;

  /** @param closingLane undefined if closing can never wait for a disk, as with O_PATH: then it is done on the spot */
  constructor(fd: number, path: string, closingLane: Lane | undefined) {
    this.fd = fd;
    this.path = path;
    this.#closingLane = closingLane;
  }

  /** A path that names the very thing that is open, whatever happened to its name since (proc(5)). */
  get procPath(): string {
    return `/proc/self/fd/${this.fd}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#closingLane === undefined) return this.closeNow();
    if (!this.#isOpen) return;
    this.#isOpen = false;
    // close(2): the descriptor is gone whatever it returns, and nothing here is written through one without a sync.
    await this.#closingLane.settle(() => callOnWorker(closeCall, [this.fd]));
  }

  /** Closes while the caller goes on: right where nothing depends on when, and what was written has been synced. */
  closeLater(): void {
    void this[Symbol.asyncDispose]();
  }

  /** Closes without a worker thread: right where something else (a mount, a loop device) keeps the file open. */
  closeNow(): void {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    closeCall.native(this.fd);
  }
}

/** A system call that returns a file descriptor: if nobody waits for it any more when it does, it is closed. */
export function invokeToOpen<A extends readonly Argument[]>(
  lane: Lane,
  call: NativeCall<A>,
  args: A,
  path?: string,
): Promise<number> {
  return invoke(lane, call, args, path, ({ result }) => {
    if (typeof result === 'number' && result >= 0) void lane.settle(() => callOnWorker(closeCall, [result]));
  });
}

/** open(2), always with O_CLOEXEC. */
export async function openFile(lane: Lane, path: string, flags: number, mode = 0): Promise<Descriptor> {
  const fd = await invokeToOpen(lane, openCall, [path, flags | openFlags.O_CLOEXEC, mode], path);
  return new Descriptor(fd, path, (flags & openFlags.O_PATH) === 0 ? lane : undefined);
}

/** Opens to read, or to send an ioctl or an fsync to. Never waits for the other end of a FIFO. */
export function openReadOnly(lane: Lane, path: string): Promise<Descriptor> {
  return openFile(lane, path, constants.O_RDONLY | constants.O_NONBLOCK);
}
