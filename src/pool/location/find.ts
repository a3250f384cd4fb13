import { realpath } from 'node:fs/promises';
import { dirname } from 'node:path';
import { explain } from '../../cli/explain.ts';
import type { PoolConfig } from '../../config/config.ts';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { isErrno } from '../../kernel/call/errno.ts';
import { type LockHolder, lockHolders } from '../../kernel/file/lock.ts';
import { type FileStatus, statusOf } from '../../kernel/file/path.ts';
import { markerPathOf } from '../records/pool-file.ts';
import { poolRoot } from './location.ts';

/**
 * open: it is there, and mounted if need be. closed: it is not mounted here. absent: the driver makes it at its first
 * start. broken: the driver will not use it. quarantined: the driver that runs it says that its disk is sick. silent: its disk does not
 * answer.
 */
export type LocationState = 'open' | 'absent' | 'closed' | 'broken' | 'quarantined' | 'silent';

/** Whether the driver can use a pool that is so, or does. */
export function isUsable(state: LocationState): boolean {
  return state === 'open' || state === 'absent' || state === 'closed';
}

/** Where a pool is, found without changing anything. */
export interface LocationSight extends Place {
  readonly state: LocationState;
  /** Its path without symlinks: what its lock is on. */
  readonly source: string;
  /** What to know, and what to do about it, if it is not open. */
  readonly advice: string | undefined;
  /** The driver that runs the pool now, if any does. */
  readonly holders: readonly LockHolder[];
}

/** Where it is, whatever is there. */
export interface Place {
  /** auto: not made yet, so it may become a directory or a file. */
  readonly type: 'directory' | 'device' | 'file' | 'auto';
  readonly path: string;
  /** The directory that has its records, when it is open. */
  readonly root: string;
}

/** Looks for a pool as the driver would, but makes, mounts and locks nothing, and does not look into it. */
export async function findLocation(queue: DiskQueue, dataDirectory: string, pool: PoolConfig): Promise<LocationSight> {
  const place = await placeOf(queue, dataDirectory, pool);
  const isDirectory = place.type === 'directory';
  try {
    const source = await queue.run(() => realpath(place.path));
    const { isMountRoot, kind } = await statusOf(queue, isDirectory ? source : place.root).catch(ifMissing);
    const sight = { ...place, source, holders: await lockHolders(queue, source) };
    if (kind !== 'directory') return { ...sight, state: 'broken', advice: `${place.root} is no directory.` };
    return { ...sight, state: isDirectory || isMountRoot ? 'open' : 'closed', advice: undefined };
  } catch (error) {
    const sight = isErrno(error, 'ENOENT', 'ENOTDIR')
      ? await missing(queue, dataDirectory, pool.name, place)
      : ({ state: 'broken', advice: explain(error) } as const);
    return { ...place, ...sight, source: place.path, holders: [] };
  }
}

/** As far as the configuration alone says it. */
export function configuredPlace(dataDirectory: string, { name, location }: PoolConfig): Place {
  const root = poolRoot(dataDirectory, name);
  if (location.type === 'directory') return { type: 'directory', path: location.path, root: location.path };
  return location.type === 'auto'
    ? { type: 'auto', path: root, root }
    : { type: location.type, path: location.path, root };
}

/** An automatic location is made once, by the driver: what exists tells which of the two kinds it was. */
async function placeOf(queue: DiskQueue, dataDirectory: string, pool: PoolConfig): Promise<Place> {
  const place = configuredPlace(dataDirectory, pool);
  if (place.type !== 'auto') return place;
  const file = `${place.root}.img`;
  if (await exists(queue, file)) return { ...place, type: 'file', path: file };
  return (await exists(queue, place.root)) ? { ...place, type: 'directory' } : place;
}

/** A mount point that was not made yet is as good as one with nothing mounted; the location itself is looked for after it. */
function ifMissing(error: unknown): Pick<FileStatus, 'isMountRoot' | 'kind'> {
  if (isErrno(error, 'ENOENT')) return { isMountRoot: false, kind: 'directory' };
  throw error;
}

async function missing(
  queue: DiskQueue,
  dataDirectory: string,
  poolName: string,
  { type, path }: Place,
): Promise<Pick<LocationSight, 'state' | 'advice'>> {
  if (await exists(queue, markerPathOf(dataDirectory, poolName))) {
    return { state: 'broken', advice: `this node had a pool at ${path}, but there is none now. Is its disk mounted?` };
  }
  if (type === 'device') return { state: 'broken', advice: `${path} is not a block device of this node.` };
  if (type !== 'auto' && !(await exists(queue, dirname(path)))) {
    return { state: 'broken', advice: `${dirname(path)} does not exist. Is its disk mounted?` };
  }
  return absent(path);
}

export function absent(path: string): Pick<LocationSight, 'state' | 'advice'> {
  return {
    state: 'absent',
    advice: `${path} holds no pool yet: the driver makes it at its first start (holdfast serve).`,
  };
}

/** What cannot be reached counts as missing: what comes next says why. */
async function exists(queue: DiskQueue, path: string): Promise<boolean> {
  try {
    await statusOf(queue, path);
    return true;
  } catch (error) {
    if (queue.closedFor !== undefined) throw error;
    return false;
  }
}
