import { realpath } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { isErrno } from '../../kernel/call/errno.ts';
import { explain } from '../../kernel/call/explain.ts';
import { type FileStatus, statusOf } from '../../kernel/file/path.ts';
import { lockHolders } from '../../kernel/process/lock.ts';
import { markerPathOf } from '../records/pool-file.ts';
import type { LocationSight } from '../sight.ts';
import type { SystemDiskUse } from './disk/system-disk.ts';
import type { Location } from './location.ts';
import { automaticFile, configuredPlace, type Place } from './place.ts';

/** Where a pool is, found without changing anything. */
export interface FoundLocation extends LocationSight, Place {
  readonly type: Place['type'];
  /** Its path without symlinks: what its lock is on. */
  readonly source: string;
}

export interface FindOptions {
  readonly queue: DiskQueue;
  readonly dataDirectory: string;
  readonly poolName: string;
  readonly location: Location;
  /** For a directory or file that is named; unset: allow. */
  readonly systemDisk?: SystemDiskUse | undefined;
  /** The kind in its pool.json; unset: image. */
  readonly poolKind?: string;
}

/** Looks for a pool as the driver would, but makes, mounts and locks nothing, and does not look into it. */
export async function findLocation(options: FindOptions): Promise<FoundLocation> {
  const { dataDirectory, poolName, queue } = options;
  const place = await placeOf(options);
  const isDirectory = place.type === 'directory';
  try {
    const source = await queue.run(() => realpath(place.path));
    const { isMountRoot, kind } = await statusOf(queue, isDirectory ? source : place.root).catch(ifMissing);
    const sight = { ...place, source, holders: await lockHolders(queue, source) };
    if (kind !== 'directory') return { ...sight, state: 'broken', advice: `${place.root} is no directory.` };
    return { ...sight, state: isDirectory || isMountRoot ? 'open' : 'closed', advice: undefined };
  } catch (error) {
    const sight = isErrno(error, 'ENOENT', 'ENOTDIR')
      ? await missing(queue, markerPathOf(dataDirectory, poolName), place)
      : ({ state: 'broken', advice: explain(error) } as const);
    return { ...place, ...sight, source: place.path, holders: [] };
  }
}

/** An automatic location is made once, by the driver: what exists tells which of the two kinds it was. */
async function placeOf({ dataDirectory, location, poolName, queue }: FindOptions): Promise<Place> {
  const place = configuredPlace(dataDirectory, poolName, location);
  if (place.type !== 'auto') return place;
  const file = automaticFile(dataDirectory, poolName);
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
  markerPath: string,
  { type, path }: Place,
): Promise<Pick<LocationSight, 'state' | 'advice'>> {
  if (await exists(queue, markerPath)) {
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

/** A place that cannot be reached counts as missing: the next step says why. */
async function exists(queue: DiskQueue, path: string): Promise<boolean> {
  try {
    await statusOf(queue, path);
    return true;
  } catch (error) {
    if (queue.closedFor !== undefined) throw error;
    return false;
  }
}
