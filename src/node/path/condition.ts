import { basename } from 'node:path';
import type { Descriptor } from '../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { readIfThere } from '../../kernel/file/file.ts';
import { isFrozen, withoutResblks } from '../../kernel/mount/freeze.ts';
import type { Mount } from '../../kernel/mount/mount-table.ts';
import { abnormal } from '../../pool/condition.ts';
import type { Condition } from '../../pool/pool.ts';
import type { Located } from './locate.ts';
import { isLost } from './observe.ts';
import { isReadonlyDevice } from './sysfs.ts';

/** The kernel's view of a mounted volume (VS08). Messages have at most 128 bytes (L07). */
export async function filesystemCondition(queue: DiskQueue, { handle, mounted }: Located): Promise<Condition> {
  if (mounted.access === 'block') return healthy;
  if (await isLost({ mounted })) return abnormal(lostMessage);
  if (handle.isBroken)
    return abnormal('The filesystem has shut down after I/O errors; see the kernel log of the node.');
  // A mount of foreign data may be read-only on purpose.
  if (mounted.device === undefined) return healthy;
  const isProtected = await isReadonlyDevice(queue, mounted.device);
  const stopped = stoppedCondition(mounted.mount, isProtected);
  if (stopped !== undefined) return stopped;
  if (await isMountedFrozen(queue, handle.descriptor, mounted.mount)) {
    if (mounted.mount.fsType === 'xfs')
      return abnormal(`The filesystem is frozen (fsfreeze --unfreeze) or ${withoutResblks}.`);
    return abnormal('The filesystem is frozen: writers wait until it is thawed (fsfreeze --unfreeze).');
  }
  const errors = mounted.mount.fsType === 'ext4' ? await recordedErrors(queue, mounted.mount.source) : 0;
  if (errors === 0) return healthy;
  const where = mounted.mount.root === '/' ? 'unstage it' : "unmount its pool's filesystem";
  return abnormal(`ext4 has recorded ${errors} errors: back up the data, ${where} and run e2fsck.`);
}

const lostMessage = 'The process that served this mount has ended: end the pod. A new one gets a new mount.';

const healthy: Condition = { abnormal: false, message: 'The filesystem is healthy.' };

/** A hook of a backup does so for a moment, and forgets it at times. */
async function isMountedFrozen(queue: DiskQueue, directory: Descriptor, mount: Mount): Promise<boolean> {
  // A directory is its whole pool's filesystem, which the pool watches itself.
  return mount.root === '/' && (await isFrozen(queue, { ...filesystemIn(mount), devicePath: mount.source, directory }));
}

const hidingOptions = ['ro', 'emergency_ro', 'norecovery', 'noload'];

/** Its type, and whether a freeze leaves no trace there: it is read-only as a whole, or mounted without its log. */
export function filesystemIn({ fsType, superOptions }: Pick<Mount, 'fsType' | 'superOptions'>) {
  return { fsType, hidesFreeze: hidingOptions.some((option) => superOptions.includes(option)) };
}

/**
 * Filesystems that hit an error which they cannot live with stop all writing. We mount a filesystem read-only as a whole on a
 * write-protected device alone, elsewhere only its mounts: there options of the filesystem that say so are the kernel's own.
 */
function stoppedCondition({ superOptions }: Pick<Mount, 'superOptions'>, isProtected: boolean): Condition | undefined {
  if (superOptions.includes('shutdown'))
    return abnormal('The filesystem has been shut down; see the kernel log of the node.');
  if ((superOptions.includes('ro') && !isProtected) || superOptions.includes('emergency_ro')) {
    return abnormal('The kernel made the filesystem read-only after an error; see the kernel log of the node.');
  }
  return undefined;
}

/** By default ext4 goes on after an error, and counts it (Documentation/ABI/testing/sysfs-fs-ext4). */
async function recordedErrors(queue: DiskQueue, devicePath: string): Promise<number> {
  const path = `/sys/fs/ext4/${basename(devicePath)}/errors_count`;
  return Number((await readIfThere(queue, path)) ?? 0);
}
