import { join } from 'node:path';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { isErrno } from '../../kernel/call/errno.ts';
import { overwriteFile } from './durable-file.ts';

/** Lies in the pool's own directory, and says when its disk last took a write. */
export const healthFileName = 'health';

/**
 * Writes to the filesystem and waits until that is on the disk: fails or hangs as the disk does. A disk that is full is
 * not sick.
 */
export async function writeHealthFile(queue: DiskQueue, root: string): Promise<void> {
  try {
    await overwriteFile(queue, join(root, healthFileName), `${new Date().toISOString()}\n`);
  } catch (error) {
    if (!isErrno(error, 'ENOSPC', 'EDQUOT')) throw error;
  }
}
