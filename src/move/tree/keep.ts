import type { Descriptor } from '../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { errnoName, isErrno } from '../../kernel/call/errno.ts';
import { writeAttribute } from '../../kernel/file/entry.ts';
import { FailedPrecondition } from '../../volume/errors.ts';
import { shortPath } from '../../volume/short-path.ts';

/** @throws FailedPrecondition if the filesystem cannot keep it */
export async function keepAttribute(
  queue: DiskQueue,
  entry: Descriptor,
  { name, value }: { readonly name: Buffer; readonly value: Buffer },
): Promise<void> {
  await writeAttribute(queue, entry, name, value).catch((error) => {
    const text = name.toString('utf8');
    // A label of SELinux that this node does not know: the container runtime gives the files their labels.
    if (text === 'security.selinux' && isErrno(error, 'EINVAL', 'EPERM', 'EACCES', 'ENOTSUP')) return;
    // ext4 says so of one that is too long for it.
    if (!isErrno(error, 'ENOTSUP', 'E2BIG', 'ERANGE', 'ENOSPC')) throw error;
    throw cannotKeep(`the extended attribute ${text.slice(0, 40)} of ${shortPath(entry.path)}`, error);
  });
}

/** The error for an entry that could not be made. */
export function notKept(path: string, error: unknown): unknown {
  // For example, a symlink with a longer target than XFS takes, or a file with more names than ext4 does.
  const isRefused = isErrno(error, 'EFBIG', 'EINVAL', 'EMLINK', 'ENAMETOOLONG', 'ENOTSUP');
  return isRefused ? cannotKeep(shortPath(path), error) : error;
}

function cannotKeep(what: string, error: unknown): FailedPrecondition {
  return new FailedPrecondition(
    `The filesystem of the pool that receives the volume cannot keep ${what} (${errnoName(error)}).`,
  );
}
