import { readlink, statfs } from 'node:fs/promises';
import { basename } from 'node:path';
import { openReadOnly } from '../call/descriptor.ts';
import type { DiskQueue } from '../call/disk-queue.ts';
import { ignoreMissing } from '../call/errno.ts';
import { filesystemType } from './filesystem-type.ts';
import { statusOf } from './path.ts';
import { sysfsNames } from './sysfs.ts';
import { readXfs } from './xfs.ts';

/**
 * True if one journal has all changes of the directory's filesystem, in their order: of names, sizes, and where content
 * lies. Then an fsync of a directory makes everything durable that came before the directory's last change, and each
 * commit flushes the disk's cache, with the content that was written out before (fs/xfs/xfs_log.c, fs/jbd2/commit.c).
 * So it is for XFS, and for an ext4 whose journal lies on its own disk. btrfs has a log for each file; of others it is not known.
 */
export async function hasOneJournal(queue: DiskQueue, directory: string): Promise<boolean> {
  const { type } = await queue.run(() => statfs(directory, { bigint: true }));
  if (type === filesystemType.ext4) return hasJournalOfExt4(queue, directory);
  if (type !== filesystemType.xfs) return false;
  await using root = await openReadOnly(queue, directory);
  // A commit does not flush a realtime device.
  return (await readXfs(queue, root)).realtimeBlocks === 0n;
}

/**
 * ext2, and an ext4 without a journal, have the same type. The name of a journal on the same disk has its inode in it
 * (fs/jbd2/journal.c). A commit to a journal on another disk does not flush the one that has the content.
 */
async function hasJournalOfExt4(queue: DiskQueue, directory: string): Promise<boolean> {
  const { device } = await statusOf(queue, directory);
  const link = await queue.run(() => readlink(`/sys/dev/block/${device.major}:${device.minor}`)).catch(ignoreMissing);
  if (link === undefined) return false;
  const prefix = `${basename(link)}-`;
  return sysfsNames('/proc/fs/jbd2').some((name) => name.startsWith(prefix) && /^\d+$/.test(name.slice(prefix.length)));
}
