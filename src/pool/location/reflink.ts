import { randomBytes } from 'node:crypto';
import { unlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { isErrno } from '../../kernel/call/errno.ts';
import { reflink } from '../../kernel/file/filesystem.ts';

/** True if files in this directory can share their blocks (ioctl_ficlone(2)): tried, not guessed from a name. */
export async function canReflink(queue: DiskQueue, directory: string): Promise<boolean> {
  const source = join(directory, `.reflink-${randomBytes(6).toString('hex')}`);
  const clone = `${source}-clone`;
  try {
    await queue.run(() => writeFile(source, Buffer.alloc(4096), { mode: 0o600 }));
    return await reflinkIfPossible(queue, source, clone);
  } finally {
    for (const path of [source, clone]) await queue.run(() => unlink(path)).catch(() => undefined);
  }
}

/** Makes a file that shares all blocks of another one; false if files cannot do that there. */
export async function reflinkIfPossible(queue: DiskQueue, source: string, clone: string): Promise<boolean> {
  try {
    await reflink(queue, source, clone);
    return true;
  } catch (error) {
    if (isErrno(error, 'ENOTSUP', 'ENOTTY', 'EINVAL', 'EXDEV', 'ENOSYS')) return false;
    throw error;
  }
}
