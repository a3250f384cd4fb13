import { type Openable, openReadOnly } from '../call/descriptor.ts';
import type { Lane } from '../call/disk-queue.ts';
import { isErrno } from '../call/errno.ts';
import { type IoctlRequest, ioctl } from '../call/ioctl.ts';

const FIFREEZE: IoctlRequest = { name: 'FIFREEZE', number: 0xc0045877 };
const FITHAW: IoctlRequest = { name: 'FITHAW', number: 0xc0045878 };

/**
 * Brings the filesystem that a path or an open directory lies on to rest: all is on disk, and writers wait until `thaw`.
 * @throws KernelError EBUSY if it is frozen already
 */
export async function freeze(lane: Lane, filesystem: Openable): Promise<void> {
  await using descriptor = await openReadOnly(lane, filesystem);
  await ioctl(lane, descriptor, FIFREEZE, 0);
}

/** @returns whether it was frozen */
export async function thaw(lane: Lane, filesystem: Openable): Promise<boolean> {
  await using descriptor = await openReadOnly(lane, filesystem);
  try {
    await ioctl(lane, descriptor, FITHAW, 0);
    return true;
  } catch (error) {
    if (isErrno(error, 'EINVAL')) return false;
    throw error;
  }
}
