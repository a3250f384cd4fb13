import { mkdir, realpath, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Descriptor } from '../../kernel/descriptor.ts';
import { isErrno } from '../../kernel/errno.ts';
import type { Lane } from '../../kernel/lane.ts';
import { FailedPrecondition } from '../../volume/errors.ts';
import { ensureBackingFile } from './backing-file.ts';
import { Ballast, hostBallastPath } from './ballast.ts';
import { takeLock } from './home-lock.ts';
import { mountHome, unmountHome } from './home-mount.ts';
import { canReflink } from './reflink.ts';

/** Where a pool lives. */
export type Home =
  /** Under the data directory: a directory where the filesystem can reflink, else a backing file. */
  | { readonly type: 'auto'; readonly sizeBytes: bigint }
  /** A directory of a filesystem that the operator looks after. */
  | { readonly type: 'directory'; readonly path: string }
  /** A whole disk or partition; XFS is made on it if, and only if, it is blank. */
  | { readonly type: 'device'; readonly path: string }
  /** A sparse file with XFS in it. */
  | { readonly type: 'file'; readonly path: string; readonly sizeBytes: bigint };

export interface HomeOptions {
  readonly poolName: string;
  readonly home: Home;
  /** The driver's own directory: default homes, mount points and markers are in its `pools/`. */
  readonly dataDirectory: string;
  readonly lockTimeoutMs: number;
  readonly lane: Lane;
}

/** A home that is locked, mounted if need be, and ready to hold a pool. */
export interface OpenHome {
  /** The directory that holds (or will hold) pool.json. */
  readonly root: string;
  /** The sparse file below the pool's filesystem, where there is one. */
  readonly backingFile: string | undefined;
  /** Room that is held beside it. */
  readonly hostBallast: Ballast | undefined;
  /** Gives up the lock, and leaves the rest as it is; waits for nothing. */
  abandon(): void;
  /** Lets go: unmounts what was mounted unless volumes are in use, and gives up the lock. */
  close(): Promise<void>;
}

/** Finds, makes or mounts the home, and locks it against other drivers. Repeatable after a crash at any step. */
export async function openHome(options: HomeOptions): Promise<OpenHome> {
  const home = await resolveAuto(options);
  switch (home.type) {
    case 'directory':
      return openDirectoryHome(options, home.path);
    case 'file':
      await ensureBackingFile(options.lane, home.path, home.sizeBytes);
      return openMountedHome(options, home.path, home.sizeBytes);
    case 'device':
      return openMountedHome(options, await realDevice(options, home.path), undefined);
  }
}

export function poolsDirectory(dataDirectory: string): string {
  return join(dataDirectory, 'pools');
}

/** Where the filesystem of a device or file home is mounted, and where an automatic directory home lies. */
export function poolRoot(dataDirectory: string, poolName: string): string {
  return join(poolsDirectory(dataDirectory), poolName);
}

/** The choice between directory and file is made once: what exists from then on decides. */
async function resolveAuto(options: HomeOptions): Promise<Exclude<Home, { type: 'auto' }>> {
  const { home, lane, dataDirectory, poolName } = options;
  if (home.type !== 'auto') return home;
  const directory = poolRoot(dataDirectory, poolName);
  const file = { type: 'file', path: `${directory}.img`, sizeBytes: home.sizeBytes } as const;
  await lane.run(() => mkdir(poolsDirectory(dataDirectory), { recursive: true, mode: 0o700 }));
  if (await exists(lane, file.path)) return file;
  if (await exists(lane, join(directory, 'pool.json'))) return { type: 'directory', path: directory };
  return (await canReflink(lane, poolsDirectory(dataDirectory))) ? { type: 'directory', path: directory } : file;
}

async function openDirectoryHome(options: HomeOptions, path: string): Promise<OpenHome> {
  const { lane, poolName } = options;
  try {
    await lane.run(() => mkdir(path, { mode: 0o700 }));
  } catch (error) {
    // Not recursive: a missing parent means that the disk it should lie on is not mounted.
    if (isErrno(error, 'ENOENT')) {
      throw new FailedPrecondition(
        `pool ${poolName}: ${dirname(path)} does not exist. Is its disk mounted? Only the pool's own directory is made.`,
      );
    }
    if (!isErrno(error, 'EEXIST')) throw error;
  }
  const lock = await takeLock(options, path);
  const unlock = () => lock[Symbol.asyncDispose]();
  const abandon = () => void unlock();
  return { root: path, backingFile: undefined, hostBallast: undefined, abandon, close: unlock };
}

async function openMountedHome(
  options: HomeOptions,
  source: string,
  fileSizeBytes: bigint | undefined,
): Promise<OpenHome> {
  const { lane, dataDirectory, poolName } = options;
  const root = poolRoot(dataDirectory, poolName);
  await makeMountPoint(lane, root);
  const lock: Descriptor = await takeLock(options, source);
  const hostBallast = fileSizeBytes === undefined ? undefined : new Ballast(hostBallastPath(source));
  try {
    await hostBallast?.takeIn(lane);
    await mountHome({ lane, poolName, source, root, fileSizeBytes, hostBallast });
  } catch (error) {
    await lock[Symbol.asyncDispose]();
    throw error;
  }
  return {
    root,
    backingFile: fileSizeBytes === undefined ? undefined : source,
    hostBallast,
    abandon: () => void lock[Symbol.asyncDispose](),
    close: async () => {
      await unmountHome(lane, root);
      await lock[Symbol.asyncDispose]();
    },
  };
}

/** Does not look into the directory: a filesystem that is dead may be mounted there. */
async function makeMountPoint(lane: Lane, root: string): Promise<void> {
  await lane.run(() => mkdir(dirname(root), { recursive: true, mode: 0o700 }));
  try {
    await lane.run(() => mkdir(root, { mode: 0o700 }));
  } catch (error) {
    if (!isErrno(error, 'EEXIST')) throw error;
  }
}

async function realDevice(options: HomeOptions, path: string): Promise<string> {
  const { lane, poolName } = options;
  const device = await lane.run(() => realpath(path)).catch(() => undefined);
  const status = device === undefined ? undefined : await lane.run(() => stat(device));
  if (device === undefined || !status?.isBlockDevice()) {
    throw new FailedPrecondition(`pool ${poolName}: ${path} is not a block device of this node.`);
  }
  return device;
}

async function exists(lane: Lane, path: string): Promise<boolean> {
  try {
    await lane.run(() => stat(path));
    return true;
  } catch (error) {
    if (isErrno(error, 'ENOENT', 'ENOTDIR')) return false;
    throw error;
  }
}
