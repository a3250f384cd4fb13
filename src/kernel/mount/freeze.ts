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

/** struct ext4_super_block: its position, and the fields that show if the journal must be replayed. */
const ext4Superblock = { offsetBytes: 1024, lengthBytes: 1024, magicAt: 56, compatAt: 92, incompatAt: 96 };
const ext4Magic = 0xef53;
const ext4HasJournal = 0x4;
const ext4NeedsRecovery = 0x4;

/** Blocks that XFS reserves. */
const XFS_IOC_GET_RESBLKS: IoctlRequest = { name: 'XFS_IOC_GET_RESBLKS', number: 0x80105873 };

export interface MountedFilesystem {
  readonly fsType: string;
  readonly devicePath: string;
  readonly directory: Openable;
  /** True if a freeze leaves no trace there: the filesystem, not only its mount, is read-only, or its log is not used. */
  readonly hidesFreeze?: boolean;
}

/** A filesystem that must be changed is frozen: the change would wait for the thaw. */
export class FilesystemFrozen extends Unavailable {}

/** An administrator can do this, too, which looks the same as a freeze. */
export const withoutResblks = "set its resblks to 0 (xfs_io -xc 'resblks 8192')";

/** @throws FilesystemFrozen @param name the owner of the filesystem, e.g. `volume …` */
export async function requireThawed(queue: DiskQueue, name: string, filesystem: MountedFilesystem): Promise<void> {
  if (!(await isFrozen(queue, filesystem))) return;
  const orElse = filesystem.fsType === 'xfs' ? ` or ${withoutResblks}` : '';
  throw new FilesystemFrozen(
    `${name} cannot grow now: its filesystem is frozen (fsfreeze --unfreeze)${orElse}. It grows once that is over.`,
  );
}

/**
 * Answers if a filesystem that is mounted for writing is frozen; never waits for the thaw. The kernel has no call for
 * it, but a freeze leaves traces: ext4 needs no recovery then, and XFS has returned its reserved blocks. btrfs shows
 * nothing, so its answer is always false.
 */
export async function isFrozen(queue: DiskQueue, filesystem: MountedFilesystem): Promise<boolean> {
  // It looks the same.
  if (filesystem.hidesFreeze === true) return false;
  switch (filesystem.fsType) {
    case 'ext4':
      return await isFrozenExt4(queue, filesystem.devicePath);
    case 'xfs': {
      // struct xfs_fsop_resblks: the wanted and the present number, from memory.
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
  // Without a journal there are no traces.
  const hasJournal = (superblock.readUInt32LE(compatAt) & ext4HasJournal) !== 0;
  return hasJournal && (superblock.readUInt32LE(incompatAt) & ext4NeedsRecovery) === 0;
}

/** @returns true if it was frozen */
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
