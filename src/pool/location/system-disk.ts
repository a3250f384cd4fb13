import { realpath } from 'node:fs/promises';
import { basename, dirname, join, relative } from 'node:path';
import { sameDevice } from '../../kernel/block/device.ts';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { isErrno } from '../../kernel/call/errno.ts';
import { statusOf } from '../../kernel/file/path.ts';
import { type Mount, readMountTable } from '../../kernel/mount/mount-table.ts';
import { FailedPrecondition, Unavailable } from '../../volume/errors.ts';
import { exists } from './backing-file.ts';
import type { Location } from './location.ts';

/** Whether a new pool may be made on the disk of the system. */
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
  const { existing, real } = await resolve(queue, path);
  const mount = await mountOf(queue, existing);
  const own = await mountOf(queue, (await resolve(queue, dataDirectory)).existing);
  if (!isRootFilesystem(mount, real) && !sameDevice(mount.device, own.device)) return;
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

interface Resolved {
  /** What there is of the path, without symbolic links. */
  readonly existing: string;
  /** The whole path, with the part that is yet to be made. */
  readonly real: string;
}

async function resolve(queue: DiskQueue, path: string): Promise<Resolved> {
  try {
    const real = await queue.run(() => realpath(path));
    return { existing: real, real };
  } catch (error) {
    if (!isErrno(error, 'ENOENT', 'ENOTDIR') || path === '/') throw error;
    const parent = await resolve(queue, dirname(path));
    return { existing: parent.existing, real: join(parent.real, basename(path)) };
  }
}

async function mountOf(queue: DiskQueue, path: string): Promise<Mount> {
  const { mountId } = await statusOf(queue, path);
  const mount = (await readMountTable(queue)).find(({ id }) => id === mountId);
  if (mount === undefined) throw new Unavailable(`${path} was unmounted just now; try again.`);
  return mount;
}
