import { constants } from 'node:fs';
import { type Descriptor, openFile, openReadOnly } from './descriptor.ts';
import { isErrno } from './errno.ts';
import type { Lane } from './lane.ts';
import { invoke, libcCall } from './libc.ts';

const fallocateCall = libcCall<readonly [number, number, bigint, bigint]>(
  'int fallocate(int fd, int mode, int64_t offset, int64_t length)',
);
const ftruncateCall = libcCall<readonly [number, bigint]>('int ftruncate(int fd, int64_t length)');
const fsyncCall = libcCall<readonly [number]>('int fsync(int fd)');

/** Gives the file blocks for all of its first `sizeBytes`, making it that large if it is smaller (fallocate(2)). */
export async function allocate(lane: Lane, path: string, sizeBytes: bigint): Promise<void> {
  await using file = await openFile(lane, path, constants.O_WRONLY);
  for (;;) {
    try {
      await invoke(lane, fallocateCall, [file.fd, 0, 0n, sizeBytes], path);
      return;
    } catch (error) {
      // Large allocations can be interrupted by a signal; what is allocated stays so, and the next try goes on.
      if (!isErrno(error, 'EINTR')) throw error;
    }
  }
}

/** Sets the file's size; the caller syncs. Node's own truncate stops at 2^53 (ftruncate(2)). */
export async function resizeFile(lane: Lane, path: string, sizeBytes: bigint): Promise<void> {
  await using file = await openFile(lane, path, constants.O_WRONLY);
  await invoke(lane, ftruncateCall, [file.fd, sizeBytes], path);
}

/** Puts the file, or the directory's entries, on stable storage (fsync(2)). */
export async function syncFile(lane: Lane, path: string): Promise<void> {
  await using file = await openReadOnly(lane, path);
  await invoke(lane, fsyncCall, [file.fd], path);
}

/**
 * fsync for directories that many calls change at once. One sync of a directory runs at a time, and all who come before
 * the next one begins share it. Nobody shares one that had begun: it might not cover the caller's change.
 */
export class DirectorySync {
  readonly #notBegun = new Map<string, Promise<void>>();
  readonly #latest = new Map<string, Promise<void>>();

  sync(lane: Lane, path: string): Promise<void> {
    const shared = this.#notBegun.get(path);
    if (shared !== undefined) return shared;
    const next = this.#syncAfter(this.#latest.get(path), lane, path);
    this.#notBegun.set(path, next);
    this.#latest.set(path, next);
    const forget = () => {
      if (this.#latest.get(path) === next) this.#latest.delete(path);
    };
    next.then(forget, forget);
    return next;
  }

  async #syncAfter(previous: Promise<void> | undefined, lane: Lane, path: string): Promise<void> {
    // Whether the one before failed concerns those who shared it.
    await Promise.allSettled([previous]);
    let opened: Descriptor;
    try {
      opened = await openReadOnly(lane, path);
    } finally {
      this.#notBegun.delete(path);
    }
    await using directory = opened;
    await invoke(lane, fsyncCall, [directory.fd], path);
  }
}
