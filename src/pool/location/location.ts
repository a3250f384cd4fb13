import { mkdir, realpath, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Lane } from '../../kernel/call/disk-queue.ts';
import { isErrno } from '../../kernel/call/errno.ts';
import { FailedPrecondition } from '../../volume/errors.ts';
import { makeBackingFile, removeDrafts } from './backing-file.ts';
import { DiskFollower, growToFile } from './growth.ts';
import { takeLock } from './lock.ts';
import { mountHome, unmountHome } from './mount.ts';
import { canReflink } from './reflink.ts';
import { Ballast, hostBallastPath } from './reserved-space.ts';
import { defaultSizeOf } from './size.ts';

/** Where a pool lives. */
export type Home =
  /** Under the data directory: a directory where the filesystem can reflink, else a backing file. */
  | { readonly type: 'auto'; readonly sizeBytes: bigint | undefined }
  /** A directory of a filesystem that the operator looks after. */
  | { readonly type: 'directory'; readonly path: string }
  /** A whole disk or partition; XFS is made on it if, and only if, it is blank. */
  | { readonly type: 'device'; readonly path: string }
  /** A sparse file with XFS in it; its size, unless given, follows the disk that it lies on. */
  | { readonly type: 'file'; readonly path: string; readonly sizeBytes: bigint | undefined };

export interface HomeOptions {
  readonly poolName: string;
  readonly home: Home;
  /** The driver's own directory: default homes, mount points and markers are in its `pools/`. */
  readonly dataDirectory: string;
  readonly lockTimeoutMs: number;
  readonly stopping?: AbortSignal | undefined;
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
  /**
   * Makes the filesystem as large as its disk is, or its file is to be. Nothing makes it smaller again, so this is for a
   * home that is known to be the pool's.
   */
  grow(): Promise<void>;
  /** Lets the pool's filesystem follow a disk that has been enlarged since. */
  followDisk(): Promise<void>;
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
      return openFileHome(options, home.path, home.sizeBytes);
    case 'device':
      return openDeviceHome(options, await realDevice(options, home.path));
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
  const grow = async () => undefined;
  return { root: path, backingFile: undefined, hostBallast: undefined, grow, followDisk: grow, abandon, close: unlock };
}

async function openFileHome(options: HomeOptions, path: string, chosenBytes: bigint | undefined): Promise<OpenHome> {
  const { dataDirectory, lane, poolName } = options;
  const root = await makeMountPoint(lane, poolRoot(dataDirectory, poolName));
  const sizeBytes = chosenBytes ?? (await defaultSizeOf({ lane, poolName, path }));
  const made = await makeBackingFile({ lane, poolName, path }, sizeBytes);
  const lock = made ?? (await takeLock(options, path));
  const unlock = () => lock[Symbol.asyncDispose]();
  const hostBallast = new Ballast(hostBallastPath(path));
  try {
    await removeDrafts(lane, path);
    await hostBallast.takeIn(lane);
    // Loop devices are told by their file's own name.
    const source = await lane.run(() => realpath(path));
    const { device, devicePath } = await mountHome({ lane, poolName, source, root, isFile: true, hostBallast });
    return {
      root,
      backingFile: source,
      hostBallast,
      grow: () => growToFile({ lane, root, devicePath }, { path: source, device, wantedBytes: sizeBytes }),
      followDisk: async () => undefined,
      abandon: () => void unlock(),
      close: async () => {
        await unmountHome(lane, root);
        await unlock();
      },
    };
  } catch (error) {
    await unlock();
    throw error;
  }
}

async function openDeviceHome(options: HomeOptions, devicePath: string): Promise<OpenHome> {
  const { dataDirectory, lane, poolName } = options;
  const root = await makeMountPoint(lane, poolRoot(dataDirectory, poolName));
  const lock = await takeLock(options, devicePath);
  const unlock = () => lock[Symbol.asyncDispose]();
  try {
    await mountHome({ lane, poolName, root, source: devicePath, isFile: false, hostBallast: undefined });
    const follower = new DiskFollower({ lane, root, devicePath });
    return {
      root,
      backingFile: undefined,
      hostBallast: undefined,
      grow: () => follower.look(),
      followDisk: () => follower.look(),
      abandon: () => void unlock(),
      close: async () => {
        // Or it would still be in use.
        await follower.rest();
        await unmountHome(lane, root);
        await unlock();
      },
    };
  } catch (error) {
    await unlock();
    throw error;
  }
}

/** Does not look into the directory: a filesystem that is dead may be mounted there. */
async function makeMountPoint(lane: Lane, root: string): Promise<string> {
  await lane.run(() => mkdir(dirname(root), { recursive: true, mode: 0o700 }));
  try {
    await lane.run(() => mkdir(root, { mode: 0o700 }));
  } catch (error) {
    if (!isErrno(error, 'EEXIST')) throw error;
  }
  return root;
}

async function realDevice(options: HomeOptions, path: string): Promise<string> {
  const { lane, poolName } = options;
  const device = await lane.run(() => realpath(path)).catch(() => undefined);
  const status = device === undefined ? undefined : await lane.run(() => stat(device));
  if (device === undefined || !status?.isBlockDevice()) throw noDevice(poolName, path);
  return device;
}

export function noDevice(poolName: string, path: string): FailedPrecondition {
  return new FailedPrecondition(`pool ${poolName}: ${path} is not a block device of this node.`);
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
