import { randomBytes } from 'node:crypto';
import { constants } from 'node:fs';
import { type Descriptor, openFile, openReadOnly } from '../call/descriptor.ts';
import type { DiskQueue } from '../call/disk-queue.ts';
import { ignoreMissing, isErrno, KernelError } from '../call/errno.ts';
import { type IoctlRequest, ioctl } from '../call/ioctl.ts';
import { invoke, type Lent, libcCall } from '../call/libc.ts';
import { statusOf } from './path.ts';
import { makeRemovable, writeProject } from './project-id.ts';
import { nextNames, openEntry, openSubdirectory, type TreeName } from './tree.ts';

const BTRFS_IOC_SUBVOL_GETFLAGS: IoctlRequest = { name: 'BTRFS_IOC_SUBVOL_GETFLAGS', number: 0x80089419 };
const BTRFS_IOC_SUBVOL_SETFLAGS: IoctlRequest = { name: 'BTRFS_IOC_SUBVOL_SETFLAGS', number: 0x4008941a };
const BTRFS_SUBVOL_RDONLY = 0x2n;
const unlinkatCall = libcCall<readonly [Lent, Uint8Array, number]>(
  'int unlinkat(int dirfd, const void *path, int flags)',
);
const renameatCall = libcCall<readonly [Lent, Uint8Array, Lent, Uint8Array]>(
  'int renameat(int from, const void *path, int to, const void *newPath)',
);
const AT_REMOVEDIR = 0x200;
const ENOTEMPTY = 39;

/** The number of nested directories that are open at a time; deeper ones are moved up first. */
const openAtOnce = 32;
/** Limit of reads of a directory: another process that still has it open may be making files there. */
const maxPasses = 100;

/** The root of each subvolume of btrfs (BTRFS_FIRST_FREE_OBJECTID); elsewhere some directory may have it. */
const subvolumeInode = 256n;

/** The directory that deep directories are moved up into, and the names that wait there for their removal. */
interface Top {
  readonly directory: Descriptor;
  readonly waiting: TreeName[];
}

/**
 * Unlinks a file or directory and everything below it, however large, deep, or marked as immutable or, as a subvolume,
 * read-only. After an interruption, removing everything in the parent directory finishes it: directories that are too
 * deep were moved up into it.
 * @throws KernelError EXDEV or EBUSY if something is mounted there: the contents of the mount are left alone
 */
export async function removeTree(
  queue: DiskQueue,
  parent: Descriptor,
  name: string | TreeName,
  signal?: AbortSignal,
): Promise<void> {
  await removeIn(parent, [typeof name === 'string' ? nameOf(name) : name]);

  async function removeIn(upmost: Descriptor, names: readonly TreeName[]): Promise<void> {
    const top = { directory: upmost, waiting: [...names] };
    for (let next = top.waiting.pop(); next !== undefined; next = top.waiting.pop()) await remove(top, upmost, next, 0);
  }

  async function remove(top: Top, directory: Descriptor, entry: TreeName, depth: number): Promise<void> {
    signal?.throwIfAborted();
    // Tries to unlink without checking the type first: the answer could be wrong a moment later.
    if ((await unlink(directory, entry, 0)) === 'directory') await removeDirectory(top, directory, entry, depth);
  }

  async function removeDirectory(top: Top, directory: Descriptor, entry: TreeName, depth: number): Promise<void> {
    for (let pass = 1; ; pass++) {
      {
        await using opened = await openSubdirectory(queue, directory, entry).catch(ignoreMissing);
        if (opened === undefined) return;
        if (depth >= openAtOnce) return await moveUp(top, directory, entry);
        // Nothing can be moved out of a subvolume, so it is a top as well.
        if ((await statusOf(queue, opened)).inode === subvolumeInode)
          await empty(opened, (names) => removeIn(opened, names));
        else
          await empty(opened, async (names) => {
            for (const each of names) await remove(top, opened, each, depth + 1);
          });
      }
      if ((await unlink(directory, entry, AT_REMOVEDIR)) === 'gone') return;
      if (pass === maxPasses) throw new KernelError({ syscall: 'unlinkat', errno: ENOTEMPTY, path: directory.path });
    }
  }

  async function empty(directory: Descriptor, removeAll: (names: readonly TreeName[]) => Promise<void>): Promise<void> {
    for (;;) {
      const names = await nextNames(queue, directory);
      if (names.length === 0) return;
      await removeAll(names);
    }
  }

  async function moveUp(top: Top, directory: Descriptor, entry: TreeName): Promise<void> {
    const upper = nameOf(`deep.${randomBytes(6).toString('hex')}`);
    const path = `${directory.path}/${entry.text}`;
    const attempt = () => invoke(queue, renameatCall, [directory, entry.bytes, top.directory, upper.bytes], path);
    await attempt().catch(async (error) => {
      if (!isErrno(error, 'EXDEV')) throw error;
      // The directory has a quota project, and refuses files of another one.
      await writeProject(queue, top.directory, { id: 0, isInherited: false });
      await attempt();
    });
    top.waiting.push(upper);
  }

  async function unlink(
    directory: Descriptor,
    entry: TreeName,
    flags: number,
  ): Promise<'gone' | 'directory' | 'not empty'> {
    const path = `${directory.path}/${entry.text}`;
    const attempt = () => invoke(queue, unlinkatCall, [directory, entry.bytes, flags], path);
    try {
      await attempt().catch(async (error) => {
        if (isErrno(error, 'EPERM')) await free(directory, entry);
        else if (!isErrno(error, 'EROFS') || !(await makeSubvolumeWritable(queue, directory))) throw error;
        await attempt();
      });
      return 'gone';
    } catch (error) {
      if (isErrno(error, 'ENOENT')) return 'gone';
      if (isErrno(error, 'EISDIR')) return 'directory';
      if (isErrno(error, 'ENOTEMPTY', 'EEXIST')) return 'not empty';
      throw error;
    }
  }

  /** Clears the flags of both: an immutable directory keeps its entries. */
  async function free(directory: Descriptor, entry: TreeName): Promise<void> {
    await makeRemovable(queue, directory);
    await using found = await openEntry(queue, directory, entry).catch(ignoreMissing);
    if (found === undefined) return;
    const { kind } = await statusOf(queue, found);
    if (kind !== 'file' && kind !== 'directory') return;
    await using file = await openReadOnly(queue, found);
    await makeRemovable(queue, file);
  }
}

function nameOf(text: string): TreeName {
  return { bytes: Buffer.from(`${text}\0`), text };
}

/** Empties a directory of ours, except for names to keep. Names there are text. */
export async function emptyDirectory(
  queue: DiskQueue,
  path: string,
  isLeft: (name: string) => boolean,
  signal?: AbortSignal,
): Promise<void> {
  await using directory = await openFile(queue, path, constants.O_RDONLY | constants.O_DIRECTORY);
  for (;;) {
    const names = await nextNames(queue, directory);
    if (names.length === 0) return;
    for (const { text } of names) if (!isLeft(text)) await removeTree(queue, directory, text, signal);
  }
}

/**
 * Clears the mark that keeps even root from changing a subvolume of btrfs. Any user can make one: a read-only snapshot in
 * a directory needs no privilege.
 * @param directory its root, open for reading
 * @returns whether it was marked
 */
async function makeSubvolumeWritable(queue: DiskQueue, directory: Descriptor): Promise<boolean> {
  const flags = Buffer.alloc(8);
  try {
    await ioctl(queue, directory, BTRFS_IOC_SUBVOL_GETFLAGS, flags);
  } catch (error) {
    // Another filesystem, or no root of a subvolume.
    if (isErrno(error, 'ENOTTY', 'EINVAL', 'ENOTSUP')) return false;
    throw error;
  }
  const before = flags.readBigUInt64LE();
  if ((before & BTRFS_SUBVOL_RDONLY) === 0n) return false;
  flags.writeBigUInt64LE(before & ~BTRFS_SUBVOL_RDONLY);
  await ioctl(queue, directory, BTRFS_IOC_SUBVOL_SETFLAGS, flags);
  return true;
}
