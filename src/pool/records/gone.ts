import { lstat } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { ignoreMissing, isErrno } from '../../kernel/call/errno.ts';

/**
 * Does something to a file or directory that may have been removed by hand: then there is nothing to be done. An ENOENT does
 * not say which path is missing: code that takes each one for this path forgets files that are there.
 * @returns whether it was done
 */
export async function unlessGone(queue: DiskQueue, path: string, work: () => Promise<unknown>): Promise<boolean> {
  try {
    await work();
    return true;
  } catch (error) {
    if (!isErrno(error, 'ENOENT') || (await isThere(queue, path))) throw error;
    return false;
  }
}

/**
 * True if a file or directory is in its place. A place that is missing itself says nothing of it: the pool's filesystem
 * has been unmounted, or something else mounted over it.
 * @throws ENOENT then
 */
export async function isThere(queue: DiskQueue, path: string): Promise<boolean> {
  try {
    await queue.run(() => lstat(path));
    return true;
  } catch (error) {
    ignoreMissing(error);
    await queue.run(() => lstat(dirname(path)));
    return false;
  }
}
