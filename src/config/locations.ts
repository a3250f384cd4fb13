import { posix } from 'node:path';
import type { Claim } from '../pool/kind.ts';

/** The directories of the driver, and of the kubelet. */
export interface HostPlaces {
  readonly dataDirectory: string;
  readonly kubeletDirectory: string;
}

/** A path that belongs to a pool, and the pool. */
export interface PoolClaim extends Claim {
  readonly poolName: string;
}

/** Trees of the system: no pool may be one of them or lie below one. */
const systemTrees = ['/bin', '/boot', '/etc', '/lib', '/lib32', '/lib64', '/libx32', '/proc', '/sbin', '/sys', '/usr'];
/** Directories that programs share: no pool may be one of them, but it may lie below one. */
const sharedDirectories = ['/', '/dev', '/home', '/root', '/run', '/tmp', '/var', '/var/lib', '/var/log', '/var/tmp'];

/** Returns the reason why a pool cannot lie there, independent of other pools; undefined if it can. */
export function unfitLocation(
  { path, type }: Pick<Claim, 'path' | 'type'>,
  { dataDirectory, kubeletDirectory }: HostPlaces,
): string | undefined {
  const tree = systemTrees.find((each) => isAtOrIn(path, each));
  if (tree !== undefined) return `${path} belongs to the system: a pool cannot be in ${tree}. ${instead[type]}`;
  if (sharedDirectories.includes(path)) return `${path} is not for one pool alone. ${instead[type]}`;
  if (type !== 'device' && isAtOrIn(path, '/dev')) return `${path} is among the devices. ${instead[type]}`;
  for (const [directory, whose] of [
    [dataDirectory, "the driver's own directory (HOLDFAST_DATA)"],
    [kubeletDirectory, "the kubelet's directory (HOLDFAST_KUBELET_DIR)"],
  ] as const) {
    if (isAtOrIn(directory, path)) return `${path} is, or contains, ${whose}. ${instead[type]}`;
  }
  const notes = posix.join(dataDirectory, 'node');
  return isAtOrIn(path, notes) ? `${notes} has the driver's notes on volumes. ${instead[type]}` : undefined;
}

const instead = {
  directory: 'Name a directory for this pool only, such as /srv/holdfast',
  file: 'Name a file for this pool only, such as /srv/holdfast.img',
  device: 'Name a disk, such as /dev/disk/by-id/nvme-…',
} as const;

/** A pool whose path is another pool's, or lies in it. */
export interface SharedLocation {
  readonly poolName: string;
  readonly message: string;
}

/** Finds pools with the same or nested paths. The later of two is reported. */
export function sharedLocations(claims: readonly PoolClaim[]): SharedLocation[] {
  const shared = new Map<string, string>();
  for (const [index, { path, poolName }] of claims.entries()) {
    if (shared.has(poolName)) continue;
    const other = claims
      .slice(0, index)
      .find((each) => each.poolName !== poolName && (isAtOrIn(path, each.path) || isAtOrIn(each.path, path)));
    if (other !== undefined) shared.set(poolName, wordsOf(path, other));
  }
  return Array.from(shared, ([poolName, message]) => ({ poolName, message }));
}

function wordsOf(path: string, other: PoolClaim): string {
  if (path === other.path) return `pool '${other.poolName}' is already at ${path}: give each pool a separate path`;
  const [inner, outer] = isAtOrIn(path, other.path) ? [path, other.path] : [other.path, path];
  return `${inner} lies in ${outer}, and one of them is pool '${other.poolName}': give each pool a separate path`;
}

export function isAtOrIn(path: string, directory: string): boolean {
  return directory === '/' || path === directory || path.startsWith(`${directory}/`);
}
