import type { Descriptor } from '../call/descriptor.ts';
import type { DiskQueue } from '../call/disk-queue.ts';
import { writeProject } from './project-id.ts';
import { walkTree } from './tree.ts';

/**
 * Puts a directory and all that lies below it into a project; 0: into none.
 *
 * Only regular files and directories can be told: the call is an ioctl of the open file, and to open a FIFO, socket or
 * device means its other end, to open a symlink its target. Linux 6.17 has file_setattr(2) for them. Until then what is made
 * in the project later has it, of every type, but what was there keeps none. It counts as nobody's, which is a block at
 * most, and ext4, and XFS before Linux 6.10, refuse to rename it to another directory of the project or to link it there
 * (EXDEV); mv(1) makes it anew then.
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
