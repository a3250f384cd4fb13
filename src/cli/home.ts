import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { PoolConfig } from '../config.ts';
import { isErrno } from '../kernel/errno.ts';
import type { Lane } from '../kernel/lane.ts';
import { type LockHolder, lockHolders } from '../kernel/lock.ts';
import { type FileStatus, statusOf } from '../kernel/path.ts';
import { poolRoot, poolsDirectory } from '../pool/image/home.ts';
import { Layout } from '../pool/image/layout.ts';
import { explain } from './explain.ts';

/**
 * open: its records can be read. absent: the driver makes it at its first start. closed: it is there but not mounted.
 * broken: something is wrong. quarantined: the driver that runs it says that its disk is sick.
 */
export type HomeState = 'open' | 'absent' | 'closed' | 'broken' | 'quarantined';

/** Where a pool is, found without changing anything. */
export interface HomeSight {
  /** auto: not made yet, so it may become a directory or a file. */
  readonly type: 'directory' | 'device' | 'file' | 'auto';
  readonly path: string;
  /** The directory that has its records, when it is open. */
  readonly root: string;
  readonly state: HomeState;
  /** What to know, and what to do about it, if it is not open. */
  readonly advice: string | undefined;
  /** The driver that runs the pool now, if any does. */
  readonly holders: readonly LockHolder[];
}

/** Looks for a pool as the driver would, but makes, mounts and locks nothing. */
export async function findHome(lane: Lane, dataDirectory: string, pool: PoolConfig): Promise<HomeSight> {
  const place = placeOf(dataDirectory, pool);
  try {
    const isDirectory = place.type === 'directory';
    const { isMountRoot, kind } = await statusOf(lane, isDirectory ? place.path : place.root).catch(ifMissing);
    if (kind !== 'directory')
      return { ...place, state: 'broken', advice: `${place.root} is no directory.`, holders: [] };
    const holders = await lockHolders(lane, place.path);
    const isReachable = isDirectory || isMountRoot;
    if (isReachable && existsSync(new Layout(place.root).poolFile)) {
      return { ...place, state: 'open', advice: undefined, holders };
    }
    return { ...place, ...(isReachable ? missing(dataDirectory, pool.name, place) : closed(place)), holders };
  } catch (error) {
    const sight = isErrno(error, 'ENOENT', 'ENOTDIR')
      ? missing(dataDirectory, pool.name, place)
      : ({ state: 'broken', advice: explain(error) } as const);
    return { ...place, ...sight, holders: [] };
  }
}

type Place = Pick<HomeSight, 'type' | 'path' | 'root'>;

/** Where it is, whatever is there. */
export function placeOf(dataDirectory: string, { name, home }: PoolConfig): Place {
  const root = poolRoot(dataDirectory, name);
  if (home.type === 'directory') return { type: 'directory', path: home.path, root: home.path };
  if (home.type !== 'auto') return { type: home.type, path: home.path, root };
  // Made once, by the driver: what exists tells which of the two it was.
  const file = `${root}.img`;
  if (existsSync(file)) return { type: 'file', path: file, root };
  return { type: existsSync(root) ? 'directory' : 'auto', path: root, root };
}

/** A mount point that was not made yet is as good as one with nothing mounted; the home itself is looked for after it. */
function ifMissing(error: unknown): Pick<FileStatus, 'isMountRoot' | 'kind'> {
  if (isErrno(error, 'ENOENT')) return { isMountRoot: false, kind: 'directory' };
  throw error;
}

function closed({ type, path }: Place): Pick<HomeSight, 'state' | 'advice'> {
  const advice = `${type} ${path} is not mounted here: the driver mounts it while it runs. Start it (holdfast serve), or run this in the driver's container.`;
  return { state: 'closed', advice };
}

function missing(dataDirectory: string, poolName: string, { type, path }: Place): Pick<HomeSight, 'state' | 'advice'> {
  const marker = join(poolsDirectory(dataDirectory), `${poolName}.id`);
  if (existsSync(marker)) {
    return { state: 'broken', advice: `this node had a pool at ${path}, but there is none now. Is its disk mounted?` };
  }
  if (type === 'device') return { state: 'broken', advice: `${path} is no device of this node.` };
  if (type !== 'auto' && !existsSync(dirname(path))) {
    return { state: 'broken', advice: `${dirname(path)} does not exist. Is its disk mounted?` };
  }
  return {
    state: 'absent',
    advice: `${path} holds no pool yet: the driver makes it at its first start (holdfast serve).`,
  };
}
