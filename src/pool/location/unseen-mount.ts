import { setTimeout as delay } from 'node:timers/promises';
import { attachLoop, type LoopDevice } from '../../kernel/block/loop.ts';
import { isAttached } from '../../kernel/block/loop-sysfs.ts';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { isErrno } from '../../kernel/call/errno.ts';
import { type MountAttributes, type MountParameter, mountDetached } from '../../kernel/mount/mount.ts';

/* Mounts of XFS that are not visible elsewhere, and that go with this process. */

const attributes: MountAttributes = { readonly: true, nosuid: true, nodev: true, noexec: true, atime: 'noatime' };

/** Writes nothing, not even what the log has. */
export const passive: readonly MountParameter[] = [['ro'], ['norecovery']];

/**
 * True if the device's filesystem is mounted, in whatever mount namespace: then the kernel refuses to mount it read-only,
 * as a filesystem is one or the other for all its mounts.
 */
export async function isMounted(queue: DiskQueue, devicePath: string): Promise<boolean> {
  try {
    const mount = await mountDetached(queue, { fsType: 'xfs', source: devicePath, parameters: passive, attributes });
    await mount[Symbol.asyncDispose]();
    return false;
  } catch (error) {
    if (isErrno(error, 'EBUSY')) return true;
    throw error;
  }
}

export async function readMounted<T>(
  queue: DiskQueue,
  devicePath: string,
  parameters: readonly MountParameter[],
  read: (root: string) => Promise<T>,
): Promise<T> {
  await using mount = await mountDetached(queue, { fsType: 'xfs', source: devicePath, parameters, attributes });
  return await mount.during(read);
}

/** Shows a device or file by another device, which is read-only. */
export async function throughReadonly<T>(
  queue: DiskQueue,
  source: string,
  work: (loop: LoopDevice) => Promise<T>,
): Promise<T> {
  const loop = await attachLoop(queue, {
    backing: source,
    label: 'holdfast look',
    readonly: true,
    autoclear: true,
    blockSizeBytes: 512,
  });
  try {
    return await work(loop);
  } finally {
    await detached(loop);
  }
}

const detachTimeoutMs = 2_000;
const pauseMs = 5;

/** Before the lock goes: a driver that comes now must not find a device that can only be read. */
async function detached({ descriptor, number }: LoopDevice): Promise<void> {
  await descriptor[Symbol.asyncDispose]();
  const giveUpAt = performance.now() + detachTimeoutMs;
  while (isAttached(number) && performance.now() < giveUpAt) await delay(pauseMs);
}
