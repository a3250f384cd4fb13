import { constants } from 'node:fs';
import { statfs, unlink } from 'node:fs/promises';
import { type Descriptor, type Openable, openFile, openReadOnly } from '../call/descriptor.ts';
import type { DiskQueue } from '../call/disk-queue.ts';
import { type IoctlRequest, ioctl, type LentMemory } from '../call/ioctl.ts';
import { invoke, type Lent, libcCall } from '../call/libc.ts';
import { filesystemType } from './filesystem-type.ts';
import type { ByteRange } from './sparse.ts';
import { readXfs } from './xfs.ts';

const FICLONE: IoctlRequest = { name: 'FICLONE', number: 0x40049409 };
const FICLONERANGE: IoctlRequest = { name: 'FICLONERANGE', number: 0x4020940d };
const FITRIM: IoctlRequest = { name: 'FITRIM', number: 0xc0185879 };

const syncfsCall = libcCall<readonly [Lent]>('int syncfs(int fd)');

/** Writes back everything that the filesystem of an open file has in memory (syncfs(2)). */
export async function syncFilesystem(queue: DiskQueue, file: Descriptor): Promise<void> {
  await invoke(queue, syncfsCall, [file], file.path);
}

/** Tells the device below the filesystem which blocks are free. Returns the number of their bytes. */
export async function trim(queue: DiskQueue, filesystem: Openable): Promise<bigint> {
  await using descriptor = await openReadOnly(queue, filesystem);
  return await trimRange(queue, descriptor, 0n, undefined);
}

/**
 * The same for a part of an open filesystem.
 * @param lengthBytes undefined: to the end
 * @throws KernelError EINVAL if it starts beyond the end
 */
export async function trimRange(
  queue: DiskQueue,
  directory: Descriptor,
  startBytes: bigint,
  lengthBytes: bigint | undefined,
): Promise<bigint> {
  // struct fstrim_range: start, length, shortest extent; the kernel writes the trimmed bytes to length.
  const range = Buffer.alloc(24);
  range.writeBigUInt64LE(startBytes, 0);
  range.writeBigUInt64LE(lengthBytes ?? (1n << 64n) - 1n - startBytes, 8);
  await ioctl(queue, directory, FITRIM, range);
  return range.readBigUInt64LE(8);
}

/** xfs_fs.h: its argument and the version of that. */
const XFS_IOC_FREE_EOFBLOCKS: IoctlRequest = { name: 'XFS_IOC_FREE_EOFBLOCKS', number: 0x8080583a };
const eofBlocksBytes = 128;
const XFS_EOFBLOCKS_VERSION = 1;

/**
 * Waits until the blocks of unlinked files, and those preallocated and not used, are free. XFS frees them after
 * unlink(2) has returned, and statfs(2) does not wait for it; other filesystems free them at once.
 */
export async function finishUnlinks(queue: DiskQueue, directory: string): Promise<void> {
  const { type } = await queue.run(() => statfs(directory, { bigint: true }));
  if (type !== filesystemType.xfs) return;
  await using root = await openReadOnly(queue, directory);
  const argument = Buffer.alloc(eofBlocksBytes);
  argument.writeUInt32LE(XFS_EOFBLOCKS_VERSION, 0);
  await ioctl(queue, root, XFS_IOC_FREE_EOFBLOCKS, argument);
}

/**
 * Makes `toPath` a copy of `fromPath` that shares its blocks, in constant time. `toPath` must not exist; if the
 * filesystem cannot do it (EOPNOTSUPP, EXDEV, EINVAL) it does not exist afterwards either.
 */
export async function reflink(queue: DiskQueue, fromPath: string, toPath: string): Promise<void> {
  await using from = await openReadOnly(queue, fromPath);
  await using to = await openFile(queue, toPath, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL, 0o600);
  try {
    await reflinkWhole(queue, from, to);
  } catch (error) {
    await queue.run(() => unlink(toPath));
    throw error;
  }
}

/**
 * Makes a range of an open file share the blocks of the same range of another (ioctl_ficlonerange(2)): shared blocks
 * stay, and holes become holes. Writes to both files wait until it is done.
 */
export async function reflinkRange(
  queue: DiskQueue,
  from: Descriptor,
  to: Descriptor,
  range: ByteRange,
): Promise<void> {
  // struct file_clone_range: source, its offset, length, offset in the destination.
  const argument = Buffer.alloc(32);
  argument.writeBigUInt64LE(range.offsetBytes, 8);
  argument.writeBigUInt64LE(range.lengthBytes, 16);
  argument.writeBigUInt64LE(range.offsetBytes, 24);
  const lent: LentMemory = {
    lend() {
      argument.writeBigInt64LE(BigInt(from.lend()), 0);
      return argument;
    },
    giveBack: () => from.giveBack(),
  };
  await ioctl(queue, to, FICLONERANGE, lent);
}

/** The same for two whole files, at one instant. */
export async function reflinkWhole(queue: DiskQueue, from: Descriptor, to: Descriptor): Promise<void> {
  await ioctl(queue, to, FICLONE, from);
}

/** Types of filesystems whose files can always share blocks, or never. */
const sharingByType: ReadonlyMap<bigint, boolean> = new Map([
  [filesystemType.btrfs, true],
  [filesystemType.bcachefs, true],
  [filesystemType.ext4, false],
  [filesystemType.f2fs, false],
  [filesystemType.tmpfs, false],
]);

/**
 * Answers if files of the directory's filesystem can share blocks, without writing to it.
 * @returns undefined if only a try can show it
 */
export async function seesReflink(queue: DiskQueue, directory: string): Promise<boolean | undefined> {
  const { type } = await queue.run(() => statfs(directory, { bigint: true }));
  if (type !== filesystemType.xfs) return sharingByType.get(type);
  await using root = await openReadOnly(queue, directory);
  return (await readXfs(queue, root)).hasSharing;
}
