import { Unavailable } from '../../volume/errors.ts';
import { type Openable, openReadOnly } from '../call/descriptor.ts';
import type { DiskQueue } from '../call/disk-queue.ts';
import { isErrno } from '../call/errno.ts';
import { type IoctlRequest, ioctl, ioctlNow } from '../call/ioctl.ts';
import { readAt } from '../file/file.ts';

const FIFREEZE: IoctlRequest = { name: 'FIFREEZE', number: 0xc0045877 };
const FITHAW: IoctlRequest = { name: 'FITHAW', number: 0xc0045878 };

/**
 * Freezes the filesystem of a path or an open directory: everything is on disk, and writers wait until `thaw`.
 * @throws KernelError EBUSY if it is frozen already
 */
export async function freeze(queue: DiskQueue, filesystem: Openable): Promise<void> {
  await using descriptor = await openReadOnly(queue, filesystem);
  await ioctl(queue, descriptor, FIFREEZE, 0);
}

/** struct ext4_super_block: where it lies, and what says in it that the journal has to be replayed. */
const ext4Superblock = { offsetBytes: 1024, lengthBytes: 1024, magicAt: 56, compatAt: 92, incompatAt: 96 };
const ext4Magic = 0xef53;
const ext4HasJournal = 0x4;
const ext4NeedsRecovery = 0x4;

/** Blocks that XFS keeps for itself. */
const XFS_IOC_GET_RESBLKS: IoctlRequest = { name: 'XFS_IOC_GET_RESBLKS', number: 0x80105873 };

export interface MountedFilesystem {
  readonly fsType: string;
  readonly devicePath: string;
  readonly directory: Openable;
  /** Not only its mount. Nobody can write to it, frozen or not. */
  readonly isReadonly?: boolean;
}

/** A filesystem that was to be changed is frozen: the change would wait for the thaw. */
export class FilesystemFrozen extends Unavailable {}

/** An administrator can do so, too, and the kernel does not tell that from a freeze. */
export const withoutResblks = "set its resblks to 0 (xfs_io -xc 'resblks 8192')";

/** @throws FilesystemFrozen @param name what has the filesystem, `volume …` for example */
export async function requireThawed(queue: DiskQueue, name: string, filesystem: MountedFilesystem): Promise<void> {
  if (!(await isFrozen(queue, filesystem))) return;
  const orElse = filesystem.fsType === 'xfs' ? ` or ${withoutResblks}` : '';
  throw new FilesystemFrozen(
    `${name} cannot grow now: somebody has frozen its filesystem (fsfreeze --unfreeze)${orElse}. It grows once that is over.`,
  );
}

/**
 * Whether a filesystem that is mounted for writing is frozen now; never waits for the thaw. The kernel does not tell,
 * but what a freeze leaves can be seen: ext4 needs no recovery then, and XFS has given back what it keeps for itself.
 * btrfs shows nothing, so that its answer is always no.
 */
export async function isFrozen(queue: DiskQueue, filesystem: MountedFilesystem): Promise<boolean> {
  // It looks the same.
  if (filesystem.isReadonly === true) return false;
  switch (filesystem.fsType) {
    case 'ext4':
      return await isFrozenExt4(queue, filesystem.devicePath);
    case 'xfs': {
      // struct xfs_fsop_resblks: how many there are to be, and how many there are; looked up in memory.
      const kept = Buffer.alloc(16);
      await using directory = await openReadOnly(queue, filesystem.directory);
      ioctlNow(directory, XFS_IOC_GET_RESBLKS, kept);
      return kept.readBigUInt64LE(0) === 0n;
    }
    default:
      return false;
  }
}

/** A mounted filesystem has its superblock in the cache of its device. */
async function isFrozenExt4(queue: DiskQueue, devicePath: string): Promise<boolean> {
  const { compatAt, incompatAt, lengthBytes, magicAt, offsetBytes } = ext4Superblock;
  await using device = await openReadOnly(queue, devicePath);
  const superblock = await readAt(queue, device, { offsetBytes, lengthBytes });
  if (superblock.length < lengthBytes || superblock.readUInt16LE(magicAt) !== ext4Magic) return false;
  // Without a journal nothing tells.
  const hasJournal = (superblock.readUInt32LE(compatAt) & ext4HasJournal) !== 0;
  return hasJournal && (superblock.readUInt32LE(incompatAt) & ext4NeedsRecovery) === 0;
}

/** @returns whether it was frozen */
export async function thaw(queue: DiskQueue, filesystem: Openable): Promise<boolean> {
  await using descriptor = await openReadOnly(queue, filesystem);
  try {
    await ioctl(queue, descriptor, FITHAW, 0);
    return true;
  } catch (error) {
    if (isErrno(error, 'EINVAL')) return false;
    throw error;
  }
}
