import { join } from 'node:path';
import { poolsDirectory } from '../records/pools-directory.ts';
import type { Location } from './location.ts';

/** Where the filesystem of a device or file location is mounted, and where an automatic directory location lies. */
export function poolRoot(dataDirectory: string, poolName: string): string {
  return join(poolsDirectory(dataDirectory), poolName);
}

/** Where an automatic location has its file, if it is one. */
export function automaticFile(dataDirectory: string, poolName: string): string {
  return `${poolRoot(dataDirectory, poolName)}.img`;
}

/** Where a pool is, whatever is there. */
export interface Place {
  /** auto: not made yet, so it may become a directory or a file. */
  readonly type: Location['type'];
  readonly path: string;
  /** The directory that has its records, when it is open. */
  readonly root: string;
}

/** The place by the configuration alone. */
export function configuredPlace(dataDirectory: string, poolName: string, location: Location): Place {
  const root = poolRoot(dataDirectory, poolName);
  if (location.type === 'directory') return { type: 'directory', path: location.path, root: location.path };
  return { type: location.type, path: location.type === 'auto' ? root : location.path, root };
}
