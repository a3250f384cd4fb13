import { lstat } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { ignoreMissing, isErrno } from '../../kernel/call/errno.ts';

/**
 * Does something to a file or directory that somebody may have removed by hand: then there is nothing to be done. That
 * something is missing says nothing of which: whoever takes every ENOENT for this one forgets what is there.
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
 * Whether a file or directory is in its place. A place that is missing itself says nothing of it: the pool's filesystem
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
