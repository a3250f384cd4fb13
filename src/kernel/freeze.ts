import { openReadOnly } from './descriptor.ts';
import { isErrno } from './errno.ts';
import { type IoctlRequest, ioctl } from './ioctl.ts';
import type { Lane } from './lane.ts';

const FIFREEZE: IoctlRequest = { name: 'FIFREEZE', number: 0xc0045877 };
const FITHAW: IoctlRequest = { name: 'FITHAW', number: 0xc0045878 };

/**
 * Brings the filesystem at `path` to rest: all is on disk, and writers wait until `thaw`.
 * @throws KernelError EBUSY if it is frozen already
 */
export async function freeze(lane: Lane, path: string): Promise<void> {
  await using descriptor = await openReadOnly(lane, path);
  await ioctl(lane, descriptor, FIFREEZE, 0);
}

/** @returns whether it was frozen */
export async function thaw(lane: Lane, path: string): Promise<boolean> {
  await using descriptor = await openReadOnly(lane, path);
  try {
    await ioctl(lane, descriptor, FITHAW, 0);
    return true;
  } catch (error) {
    if (isErrno(error, 'EINVAL')) return false;
    throw error;
  }
}
