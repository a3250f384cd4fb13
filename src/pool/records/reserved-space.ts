import { constants } from 'node:fs';
import { statfs, truncate } from 'node:fs/promises';
import { dirname } from 'node:path';
import { openFile } from '../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { ignoreMissing, isErrno } from '../../kernel/call/errno.ts';
import { allocate } from '../../kernel/file/file.ts';
import { statusOf } from '../../kernel/file/path.ts';
import type { ReservedInodes } from './reserved-inodes.ts';

/** Lies in the pool's own directory, and keeps its room from all others. */
export const reserveFileName = 'ballast';

/** The same on the host of a backing file, beside it. */
export function hostReservePath(backingFile: string): string {
  return `${backingFile}.${reserveFileName}`;
}

const wholeBytes = 16n << 20n;
/** A record takes a block or two; the program that fills the disk may be faster than us, and take some of it. */
const pieceBytes = 1n << 20n;
/** Taken only from a disk that has plenty. */
const plentyFactor = 8n;

/** Room that is held for the records: a full pool can be emptied only if removals can be noted. */
export class ReservedSpace {
  readonly #path: string;
  readonly #host: ReservedSpace | undefined;
  readonly #inodes: ReservedInodes | undefined;
  #bytes = 0n;

  /**
   * @param path of the file that will take the room
   * @param host of the filesystem below, where the pool's lies in a sparse file: free space in that is of no use when
   *     its host is full
   * @param inodes the inodes that go with it
   */
  constructor(
    path: string,
    { host, inodes }: { readonly host?: ReservedSpace | undefined; readonly inodes?: ReservedInodes } = {},
  ) {
    this.#path = path;
    this.#host = host;
    this.#inodes = inodes;
  }

  /** The bytes that it holds. */
  get bytes(): bigint {
    return this.#bytes;
  }

  /** The bytes that it holds on the host. */
  get hostBytes(): bigint {
    return this.#host?.bytes ?? 0n;
  }

  /** Takes the room, if there is enough; never fails for want of it. */
  async acquire(queue: DiskQueue): Promise<void> {
    await this.#host?.acquire(queue);
    await this.#inodes?.acquire(queue);
    if (this.#bytes === wholeBytes && (await this.#isThere(queue))) return;
    try {
      const { bavail, bsize } = await queue.run(() => statfs(dirname(this.#path), { bigint: true }));
      await using _made = await openFile(queue, this.#path, constants.O_WRONLY | constants.O_CREAT, 0o600);
      if (bavail * bsize >= plentyFactor * wholeBytes) await allocate(queue, this.#path, wholeBytes);
      const { allocatedBytes, sizeBytes } = await statusOf(queue, this.#path);
      this.#bytes = allocatedBytes < sizeBytes ? allocatedBytes : sizeBytes;
    } catch (error) {
      if (!isErrno(error, 'ENOSPC', 'EDQUOT', 'ENOTSUP')) throw error;
    }
  }

  /** Does something that must not fail for want of a few blocks or an inode, and throws as much out as it needs. */
  async withReserve<T>(queue: DiskQueue, work: () => Promise<T>): Promise<T> {
    for (;;) {
      try {
        return await work();
      } catch (error) {
        if (!isErrno(error, 'ENOSPC') || !(await this.#release(queue))) throw error;
      }
    }
  }

  /** A piece of each: which filesystem is full, the error does not tell. @returns whether there was anything left */
  async #release(queue: DiskQueue): Promise<boolean> {
    const hostIsLighter = this.#host !== undefined && (await this.#host.#release(queue));
    const isLighter = (await this.#inodes?.release(queue)) === true || hostIsLighter;
    if (this.#bytes === 0n) return isLighter;
    this.#bytes = this.#bytes > pieceBytes ? this.#bytes - pieceBytes : 0n;
    try {
      await queue.run(() => truncate(this.#path, Number(this.#bytes)));
      return true;
    } catch (error) {
      // Removed by hand: the room is free for others. The caller must not take this error for one about its own file.
      ignoreMissing(error);
      this.#bytes = 0n;
      return isLighter;
    }
  }

  async #isThere(queue: DiskQueue): Promise<boolean> {
    return (await statusOf(queue, this.#path).catch(ignoreMissing)) !== undefined;
  }
}
