import type { Descriptor } from '../call/descriptor.ts';
import type { DiskQueue } from '../call/disk-queue.ts';
import { writeProject } from './project-id.ts';
import { walkTree } from './tree.ts';

/**
 * Puts a directory and everything below it into a project; 0: into none.
 *
 * Only regular files and directories can be changed: the call is an ioctl of the open file, and opening a FIFO, socket
 * or device reaches its other end, opening a symlink its target. Linux 6.17 has file_setattr(2) for them. Before that,
 * new files of every type in the directory belong to the project, but existing special files keep none. They count for
 * no project, which is a block at most, and ext4, and XFS before Linux 6.10, refuse to rename them to another directory
 * of the project or to link them there (EXDEV); mv(1) then makes a new one.
 * @throws KernelError EXDEV if something is mounted in it; EDQUOT or ENOSPC if it is larger than the project's limit
 */
export async function writeProjectOfTree(
  queue: DiskQueue,
  root: Descriptor,
  id: number,
  signal?: AbortSignal,
): Promise<void> {
  await walkTree(
    queue,
    root,
    async ({ file, status: { kind } }) => {
      if (kind !== 'file' && kind !== 'directory') return;
      await writeProject(queue, file, { id, isInherited: id !== 0 && kind === 'directory' });
    },
    { signal },
  );
}
