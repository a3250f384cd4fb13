import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { isErrno } from '../../kernel/errno.ts';
import type { Lane } from '../../kernel/lane.ts';

/** Lies in the pool's own directory, and says when its disk last took a write. */
export const healthFileName = 'health';

/**
 * Writes to the filesystem and waits until that is on the disk: fails or hangs as the disk does. A disk that is full is
 * not sick.
 */
export async function writeHealthFile(lane: Lane, root: string): Promise<void> {
  const path = join(root, healthFileName);
  // Always of one length, so that it is written over in place.
  const text = Buffer.from(`${new Date().toISOString()}\n`);
  try {
    await lane.run(async () => {
      await using file = await open(path, constants.O_WRONLY | constants.O_CREAT, 0o600);
      await file.write(text, 0, text.length, 0);
      await file.sync();
    });
  } catch (error) {
    if (!isErrno(error, 'ENOSPC', 'EDQUOT')) throw error;
  }
}
