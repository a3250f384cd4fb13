import { posix } from 'node:path';

/** What a pool is given to live in, as far as its section says it; more than one if that is wrong. */
export interface GivenLocation {
  readonly poolName: string;
  readonly key: 'directory' | 'device' | 'file';
  /** Normalised. */
  readonly path: string;
}

/** The driver's own places, and the kubelet's. */
export interface HostPlaces {
  readonly dataDirectory: string;
  readonly kubeletDirectory: string;
}

/** Here everything belongs to the system: a pool lies neither in them nor below. */
const systemTrees = ['/bin', '/boot', '/etc', '/lib', '/lib32', '/lib64', '/libx32', '/proc', '/sbin', '/sys', '/usr'];
/** Others have their files beside each other here; what is below may be a pool. */
const sharedDirectories = ['/', '/dev', '/home', '/root', '/run', '/tmp', '/var', '/var/lib', '/var/log', '/var/tmp'];

/** Why a pool cannot live there, whatever other pools there are; undefined if it can. */
export function unfitLocation(
  { key, path }: GivenLocation,
  { dataDirectory, kubeletDirectory }: HostPlaces,
): string | undefined {
  const tree = systemTrees.find((each) => isAtOrIn(path, each));
  if (tree !== undefined) return `${path} belongs to the system: a pool cannot be in ${tree}. ${instead[key]}`;
  if (sharedDirectories.includes(path)) return `${path} is not for one pool alone. ${instead[key]}`;
  if (key !== 'device' && isAtOrIn(path, '/dev')) return `${path} is among the devices. ${instead[key]}`;
  for (const [directory, whose] of [
    [dataDirectory, "the driver's own directory (HOLDFAST_DATA)"],
    [kubeletDirectory, "the kubelet's directory (HOLDFAST_KUBELET_DIR)"],
  ] as const) {
    if (isAtOrIn(directory, path)) return `${path} is, or contains, ${whose}. ${instead[key]}`;
  }
  const notes = posix.join(dataDirectory, 'node');
  return isAtOrIn(path, notes) ? `${notes} has the driver's notes on volumes. ${instead[key]}` : undefined;
}

const instead = {
  directory: 'Name a directory of its own, such as /srv/holdfast',
  file: 'Name a file of its own, such as /srv/holdfast.img',
  device: 'Name a disk, such as /dev/disk/by-id/nvme-…',
} as const;

/** A pool whose place is another one's, or lies in it. */
export interface SharedLocation {
  readonly poolName: string;
  readonly message: string;
}

/** Pools that would share a place. Of two, the one that comes later is told. */
export function sharedLocations(
  poolNames: readonly string[],
  locations: readonly GivenLocation[],
  { dataDirectory }: HostPlaces,
): SharedLocation[] {
  const claims = poolNames.flatMap((poolName) => {
    const given = locations.filter((location) => location.poolName === poolName);
    // What is not a directory is mounted there, and without a location of its own the pool is there itself, or in a file.
    const root = posix.join(dataDirectory, 'pools', poolName);
    const own = given.some(({ key }) => key === 'directory') ? [] : [root];
    const paths = [...given.map(({ path }) => path), ...own, ...(given.length === 0 ? [`${root}.img`] : [])];
    return paths.map((path) => ({ poolName, path }));
  });
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

function wordsOf(path: string, other: { readonly poolName: string; readonly path: string }): string {
  if (path === other.path) return `pool '${other.poolName}' is already at ${path}: give each pool a place of its own`;
  const [inner, outer] = isAtOrIn(path, other.path) ? [path, other.path] : [other.path, path];
  return `${inner} lies in ${outer}, and one of them is pool '${other.poolName}': give each pool a place of its own`;
}

function isAtOrIn(path: string, directory: string): boolean {
  return directory === '/' || path === directory || path.startsWith(`${directory}/`);
}
