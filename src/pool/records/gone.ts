import { lstat } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Lane } from '../../kernel/call/disk-queue.ts';
import { ignoreMissing, isErrno } from '../../kernel/call/errno.ts';

/**
 * Does something to a file or directory that somebody may have removed by hand: then there is nothing to be done. That
 * something is missing says nothing of which: whoever takes every ENOENT for this one forgets what is there.
 * @returns whether it was done
 */
export async function unlessGone(lane: Lane, path: string, work: () => Promise<unknown>): Promise<boolean> {
  try {
    await work();
    return true;
  } catch (error) {
    if (!isErrno(error, 'ENOENT') || (await isThere(lane, path))) throw error;
    return false;
  }
}

/**
 * Whether a file or directory is in its place. A place that is missing itself says nothing of it: the pool's filesystem
 * has been unmounted, or something else mounted over it.
 * @throws ENOENT then
 */
export async function isThere(lane: Lane, path: string): Promise<boolean> {
  try {
    await lane.run(() => lstat(path));
    return true;
  } catch (error) {
    ignoreMissing(error);
    await lane.run(() => lstat(dirname(path)));
    return false;
  }
}
