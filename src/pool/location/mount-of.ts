import { dirname } from 'node:path';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { isErrno } from '../../kernel/call/errno.ts';
import { statusBehind } from '../../kernel/file/path.ts';
import { type Mount, readMountTable } from '../../kernel/mount/mount-table.ts';

/** The mount that a path lies on, or will lie on once it is made. */
export async function mountOf(queue: DiskQueue, path: string): Promise<Mount | undefined> {
  try {
    const { mountId } = await statusBehind(queue, path);
    return (await readMountTable(queue)).find(({ id }) => id === mountId);
  } catch (error) {
    if (isErrno(error, 'ENOENT', 'ENOTDIR') && path !== '/') return mountOf(queue, dirname(path));
    throw error;
  }
}
