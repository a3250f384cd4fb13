import { statfs } from 'node:fs/promises';
import { CommandError } from '../../command/run.ts';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { isErrno } from '../../kernel/call/errno.ts';
import type { Mount } from '../../kernel/mount/mount-table.ts';
import { FailedPrecondition } from '../../volume/errors.ts';
import { formatBytes } from '../../volume/size.ts';
import { mountOf } from './mount-of.ts';

export interface Trouble {
  readonly queue: DiskQueue;
  readonly poolName: string;
  /** The place where it should be made or opened: there already, or not yet. */
  readonly path: string;
}

/**
 * The obstacle to making or opening a pool, in words that name the filesystem and what to do, where it is one of the
 * two things that happen to every disk: it is read-only, or full.
 * @returns the error itself if it is anything else
 */
export async function explainTrouble(error: unknown, trouble: Trouble): Promise<unknown> {
  const { queue, path, poolName } = trouble;
  const isReadonly = isErrno(error, 'EROFS');
  const isFull = isErrno(error, 'ENOSPC', 'EDQUOT') || isMkfsOutOfSpace(error);
  // Node makes an ENOENT of what the kernel says of a directory below others that cannot be made either.
  if (queue.closedFor !== undefined || !(isReadonly || isFull || isErrno(error, 'ENOENT'))) return error;
  const failed = error instanceof Error && 'path' in error && typeof error.path === 'string' ? error.path : path;
  // An error at a device, or at an open file, says nothing of its place.
  const place = [failed, path].find((each) => /^\/(?!dev\/|proc\/)/.test(each));
  const mount = place === undefined ? undefined : await mountOf(queue, place);
  if (mount === undefined) return error;
  if (isFull) return full(poolName, mount, await freeBytesAt(queue, mount.target));
  if (!isReadonly && ![...mount.options, ...mount.superOptions].includes('ro')) return error;
  return new FailedPrecondition(
    `pool ${poolName}: the filesystem at ${describe(mount)} is mounted read-only. If it is healthy (see dmesg): mount -o remount,rw ${mount.target}`,
  );
}

/** For a caller that has found out that there is not enough room at a path. */
export async function tooFull({ queue, path, poolName }: Trouble): Promise<FailedPrecondition> {
  const mount = await mountOf(queue, path);
  if (mount !== undefined) return full(poolName, mount, await freeBytesAt(queue, mount.target));
  return new FailedPrecondition(`pool ${poolName}: the filesystem of ${path} is full. Free some of it.`);
}

function full(poolName: string, mount: Mount, freeBytes: bigint): FailedPrecondition {
  return new FailedPrecondition(
    `pool ${poolName}: the filesystem at ${describe(mount)} is full: ${formatBytes(freeBytes)} free. Free some of it, or give the pool its own disk.`,
  );
}

function describe({ fsType, source, target }: Mount): string {
  return `${target} (${fsType} on ${source})`;
}

/** mkfs tells the error in words; all of them go through strerror(3), in the C locale. */
function isMkfsOutOfSpace(error: unknown): boolean {
  return error instanceof CommandError && /No space left on device|err=28\b/.test(error.stderr);
}

async function freeBytesAt(queue: DiskQueue, path: string): Promise<bigint> {
  const { bavail, bsize } = await queue.run(() => statfs(path, { bigint: true }));
  return bavail * bsize;
}
