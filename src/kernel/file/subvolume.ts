import type { Descriptor } from '../call/descriptor.ts';
import type { DiskQueue } from '../call/disk-queue.ts';
import { isErrno } from '../call/errno.ts';
import { type IoctlRequest, ioctl } from '../call/ioctl.ts';

const BTRFS_IOC_SUBVOL_GETFLAGS: IoctlRequest = { name: 'BTRFS_IOC_SUBVOL_GETFLAGS', number: 0x80089419 };
const BTRFS_IOC_SUBVOL_SETFLAGS: IoctlRequest = { name: 'BTRFS_IOC_SUBVOL_SETFLAGS', number: 0x4008941a };
const BTRFS_SUBVOL_RDONLY = 0x2n;

/**
 * Clears the mark that keeps even root from changing a subvolume of btrfs. Any user can make one: a read-only snapshot in
 * a directory needs no privilege.
 * @param directory its root, open for reading
 * @returns whether it was marked
 */
export async function makeSubvolumeWritable(queue: DiskQueue, directory: Descriptor): Promise<boolean> {
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
