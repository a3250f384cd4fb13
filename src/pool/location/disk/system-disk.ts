import { realpath } from 'node:fs/promises';
import { basename, dirname, join, relative } from 'node:path';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { isErrno } from '../../../kernel/call/errno.ts';
import { sameDevice } from '../../../kernel/device.ts';
import type { Mount } from '../../../kernel/mount/mount-table.ts';
import { mountTableOf } from '../../../kernel/process/process.ts';
import { FailedPrecondition, Unavailable } from '../../../volume/errors.ts';
import { exists } from '../backing-file.ts';
import type { Location } from '../location.ts';
import { mountOf } from '../mount-of.ts';

/** The rule for new pools on the disk of the system. */
export const systemDiskUses = ['allow', 'refuse'] as const;
export type SystemDiskUse = (typeof systemDiskUses)[number];

export interface WrongDiskCheck {
  readonly queue: DiskQueue;
  readonly poolName: string;
  readonly dataDirectory: string;
  readonly location: Location;
  readonly systemDisk?: SystemDiskUse | undefined;
}

/**
 * Refuses to make a pool on the system's disk where it must not be: the mount point of a disk that is not mounted is a
 * directory of the system's disk, and a kubelet makes one that is not there. A pool that is there already may be anywhere.
 * @throws FailedPrecondition
 */
export async function refuseWrongDisk(check: WrongDiskCheck): Promise<void> {
  const { dataDirectory, location, poolName, queue, systemDisk } = check;
  if (systemDisk !== 'refuse' || location.type === 'auto' || location.type === 'device') return;
  const { path, type } = location;
  if (await exists(queue, type === 'directory' ? join(path, 'pool.json') : path)) return;
  const real = await resolve(queue, path);
  const [mount, own] = await Promise.all([mountOf(queue, real), mountOf(queue, dataDirectory)]);
  if (mount === undefined || own === undefined) throw new Unavailable(`${path} was unmounted just now; try again.`);
  // The node's mounts, where its processes are seen: so a part of its filesystem is known as well, a subvolume that is
  // the root.
  const root = (await mountTableOf(queue, 1)).findLast(({ target }) => target === '/');
  const isSystem = [own, root].some((each) => sameDevice(mount.device, each?.device));
  if (!isRootFilesystem(mount, real) && !isSystem) return;
  throw new FailedPrecondition(
    `pool ${poolName}: ${path} is on the system's disk (${mount.fsType} on ${mount.source}). Is its disk mounted? If the pool is meant to be there, set systemDisk: allow.`,
  );
}

/**
 * A host path has its own name in the filesystem only if that is the one at the root of the node. So this is seen from
 * within a container, too, which does not see the node's root.
 */
export function isRootFilesystem({ root, target }: Pick<Mount, 'root' | 'target'>, path: string): boolean {
  return join(root, relative(target, path)) === path;
}

/** The whole path without symbolic links, with the part that is yet to be made. */
async function resolve(queue: DiskQueue, path: string): Promise<string> {
  try {
    return await queue.run(() => realpath(path));
  } catch (error) {
    if (!isErrno(error, 'ENOENT', 'ENOTDIR') || path === '/') throw error;
    return join(await resolve(queue, dirname(path)), basename(path));
  }
}
