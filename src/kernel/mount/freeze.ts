import { type Openable, openReadOnly } from '../call/descriptor.ts';
import type { DiskQueue } from '../call/disk-queue.ts';
import { isErrno } from '../call/errno.ts';
import { type IoctlRequest, ioctl } from '../call/ioctl.ts';

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
