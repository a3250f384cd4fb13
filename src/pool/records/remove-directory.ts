import { rmdir, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { ignoreMissing, isErrno } from '../../kernel/call/errno.ts';
import { emptyDirectory } from '../../kernel/file/tree-removal.ts';

/** A file that goes last, as it says how the rest is taken away. */
export interface LastFile {
  readonly name: string;
  /** Runs when everything else is gone. */
  readonly before: () => Promise<void>;
}

/** Removes a directory of the pool with everything in it, or a plain file in its place: a start tries the disk out with one. */
export async function removeDirectory(queue: DiskQueue, path: string, last?: LastFile): Promise<void> {
  try {
    await emptyDirectory(queue, path, (name) => name === last?.name);
    if (last !== undefined) {
      await last.before();
      await queue.run(() => unlink(join(path, last.name))).catch(ignoreMissing);
    }
    await queue.run(() => rmdir(path));
  } catch (error) {
    if (isErrno(error, 'ENOTDIR')) await queue.run(() => unlink(path)).catch(ignoreMissing);
    else ignoreMissing(error);
  }
}
