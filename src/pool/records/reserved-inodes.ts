import { constants } from 'node:fs';
import { mkdir, readdir, statfs, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { openFile } from '../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { ignoreMissing, isErrno } from '../../kernel/call/errno.ts';

/** Lies in the pool's own directory: empty files, each of which keeps an inode from all others. */
export const reservedInodesName = 'spares';

/** To note a deletion takes one. */
const whole = 16;
/** Taken only from a filesystem that has plenty. */
const plentyFactor = 8;

/** Inodes that are held for the records, on filesystems that have a number of them. */
export class ReservedInodes {
  readonly #directory: string;
  #paths: string[] = [];

  constructor(directory: string) {
    this.#directory = directory;
  }

  /** Takes them, if there are enough; never fails for want of them. */
  async acquire(queue: DiskQueue): Promise<void> {
    try {
      await queue.run(() => mkdir(this.#directory, { recursive: true, mode: 0o700 }));
      this.#paths = (await queue.run(() => readdir(this.#directory))).map((name) => join(this.#directory, name));
      if (this.#paths.length >= whole) return;
      // btrfs, which makes inodes as it needs them, says that none is free.
      const { ffree } = await queue.run(() => statfs(this.#directory));
      for (let index = 0; ffree >= plentyFactor * whole && index < whole; index++) {
        const path = join(this.#directory, `${index}`);
        if (this.#paths.includes(path)) continue;
        await using _made = await openFile(queue, path, constants.O_WRONLY | constants.O_CREAT, 0o600);
        this.#paths.push(path);
      }
    } catch (error) {
      if (!isErrno(error, 'ENOSPC', 'EDQUOT')) throw error;
    }
  }

  /** @returns whether there was one left */
  async release(queue: DiskQueue): Promise<boolean> {
    for (;;) {
      const path = this.#paths.pop();
      if (path === undefined) return false;
      // If it was removed by hand, its inode may be in use elsewhere.
      const isUnlinked = await queue.run(() => unlink(path)).then(() => true, ignoreMissing);
      if (isUnlinked === true) return true;
    }
  }
}
