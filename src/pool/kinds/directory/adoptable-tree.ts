import type { Descriptor } from '../../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { isErrno } from '../../../kernel/call/errno.ts';
import { readProject } from '../../../kernel/file/project-id.ts';
import { type TreeEntry, walkTree } from '../../../kernel/file/tree.ts';
import { FailedPrecondition } from '../../../volume/errors.ts';
import { shortPath } from '../../../volume/short-path.ts';

/** Files of several names of which not all have been met yet; more are not remembered. */
const maxIncomplete = 100_000;

/**
 * Looks through a tree that will become a volume.
 * @throws FailedPrecondition if something in it is not its own: mounts, files of another project or with a name elsewhere
 */
export async function surveyTree(
  queue: DiskQueue,
  root: Descriptor,
  { hasProjects }: { readonly hasProjects: boolean },
): Promise<{ readonly usedBytes: bigint }> {
  let usedBytes = 0n;
  const names = new Names();
  try {
    await walkTree(queue, root, async (entry) => {
      const { file, status } = entry;
      const isDirectory = status.kind === 'directory';
      // Each name of a file has its share.
      usedBytes += status.allocatedBytes / BigInt(isDirectory ? 1 : Math.max(1, status.links));
      if (!isDirectory) names.note(entry);
      if (hasProjects && (isDirectory || status.kind === 'file')) await refuseOtherProject(queue, file);
    });
  } catch (error) {
    if (isErrno(error, 'EXDEV'))
      throw new FailedPrecondition(`Something is mounted in ${root.path}: unmount it first.`);
    if (isErrno(error, 'ELOOP'))
      throw new FailedPrecondition(`${root.path} has more directories inside each other than Holdfast follows.`);
    if (isErrno(error, 'ENOENT'))
      throw new FailedPrecondition(`${root.path} is being changed just now: stop the workload first.`);
    throw error;
  }
  names.refuseOutside();
  return { usedBytes };
}

async function refuseOtherProject(queue: DiskQueue, file: Descriptor): Promise<void> {
  const { id } = await readProject(queue, file);
  if (id === 0) return;
  throw new FailedPrecondition(
    `${shortPath(file.path)} belongs to quota project ${id}, which is in use for something else. If it is not any more: chattr -R -f -p 0 on the directory.`,
  );
}

/** The names of files that have several. */
class Names {
  readonly #left = new Map<bigint, { readonly path: string; left: number }>();
  /** There were too many to tell. */
  #isOverfull = false;

  note({ file: { path }, status: { inode, links } }: TreeEntry): void {
    if (links <= 1) return;
    const known = this.#left.get(inode);
    if (known === undefined) {
      if (this.#left.size < maxIncomplete) this.#left.set(inode, { path, left: links - 1 });
      else this.#isOverfull = true;
    } else if (--known.left === 0) this.#left.delete(inode);
  }

  /** @throws FailedPrecondition */
  refuseOutside(): void {
    const [outside] = this.#left.values();
    if (outside === undefined || this.#isOverfull) return;
    throw new FailedPrecondition(
      `${shortPath(outside.path)} has another name outside of the directory (a hard link): writes here are seen there.`,
    );
  }
}
