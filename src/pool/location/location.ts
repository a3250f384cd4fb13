import { mkdir, realpath, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { isErrno } from '../../kernel/call/errno.ts';
import { FailedPrecondition } from '../../volume/errors.ts';
import { step } from '../../volume/step.ts';
import { Freezes } from '../freeze/freezes.ts';
import type { OpenContext } from '../kind.ts';
import { markerPathOf, noPoolNow, readMarker } from '../records/pool-file.ts';
import { poolsDirectory } from '../records/pools-directory.ts';
import { hostReservePath, ReservedSpace } from '../records/reserved-space.ts';
import { exists, makeBackingFile, removeDrafts } from './backing-file.ts';
import { refuseWrongDisk, type SystemDiskUse } from './disk/system-disk.ts';
import { DiskFollower, growToFile } from './growth.ts';
import { takeLock } from './lock.ts';
import type { PoolDisk } from './match/one-disk.ts';
import { type LocationMount, mountLocation, unmountLocation } from './mount.ts';
import { automaticFile, poolRoot } from './place.ts';
import { canReflink } from './reflink.ts';
import { defaultSizeOf } from './size.ts';

/** Where a pool lives. */
export type Location =
  /** Under the data directory: a directory where the filesystem can reflink, else a backing file. */
  | { readonly type: 'auto'; readonly sizeBytes: bigint | undefined }
  /** A directory of a filesystem that the operator looks after. */
  | { readonly type: 'directory'; readonly path: string }
  /** A whole disk or partition; XFS is made on it if, and only if, it is blank. */
  | { readonly type: 'device'; readonly path: string }
  /** A sparse file with XFS in it; its size, unless given, follows the disk that it lies on. */
  | { readonly type: 'file'; readonly path: string; readonly sizeBytes: bigint | undefined };

/** Default locations, mount points and markers are in the `pools/` of the data directory. */
export interface LocationOptions extends Omit<OpenContext, 'log'> {
  /** The log for a wait for the lock. */
  readonly log?: OpenContext['log'] | undefined;
  readonly poolName: string;
  readonly location: Location;
  /** The device was found by a match. */
  readonly matched?: PoolDisk | undefined;
  /** For a directory or file that is named; unset: allow. */
  readonly systemDisk?: SystemDiskUse | undefined;
  readonly detachFromDead?: LocationMount['detachFromDead'];
}

/** A location that is locked, mounted if need be, and ready to hold a pool. */
export interface OpenLocation {
  /** The directory that holds (or will hold) pool.json. */
  readonly root: string;
  /** The sparse file below the pool's filesystem, where there is one. */
  readonly backingFile: string | undefined;
  /** Its filesystem holds the pool and nothing else. */
  readonly isAlone: boolean;
  /** Room that is held beside it. */
  readonly hostReserve: ReservedSpace | undefined;
  /**
   * Makes the filesystem as large as its disk is, or as its file should be. Nothing makes it smaller again, so this is for a
   * location that is known to be the pool's.
   */
  grow(): Promise<void>;
  /** All writes so far are in the filesystem, and not in its log alone: a reader that ignores the log finds them. */
  settle(): Promise<void>;
  /** Lets the pool's filesystem follow a disk that has been enlarged since. */
  followDisk(): Promise<void>;
  /** Gives up the lock, and leaves the rest as it is; waits for nothing. */
  abandon(): void;
  /** Lets go: unmounts its filesystem unless volumes are in use, and gives up the lock. */
  close(): Promise<void>;
}

/** Finds, makes or mounts the location, and locks it against other drivers. Repeatable after a crash at any step. */
export async function openLocation(options: LocationOptions): Promise<OpenLocation> {
  const location = await resolveAuto(options);
  await refuseWrongDisk(options);
  switch (location.type) {
    case 'directory':
      return openDirectoryLocation(options, location.path);
    case 'file':
      return openFileLocation(options, location.path, location.sizeBytes);
    case 'device':
      return openDeviceLocation(options, await realDevice(options, location.path));
  }
}

/** The choice between directory and file is made once: what exists from then on decides. */
async function resolveAuto(options: LocationOptions): Promise<Exclude<Location, { type: 'auto' }>> {
  const { location, queue, dataDirectory, poolName } = options;
  if (location.type !== 'auto') return location;
  const directory = poolRoot(dataDirectory, poolName);
  const file = { type: 'file', path: automaticFile(dataDirectory, poolName), sizeBytes: location.sizeBytes } as const;
  await queue.run(() => mkdir(poolsDirectory(dataDirectory), { recursive: true, mode: 0o700 }));
  if (await exists(queue, file.path)) return file;
  if (await exists(queue, join(directory, 'pool.json'))) return { type: 'directory', path: directory };
  return (await canReflink(queue, poolsDirectory(dataDirectory))) ? { type: 'directory', path: directory } : file;
}

/** The location of a pool that the node knows is not made again. A driver that makes it now notes it only after that. */
async function refuseMissing({ dataDirectory, poolName, queue }: LocationOptions, path: string): Promise<void> {
  const markerPath = markerPathOf(dataDirectory, poolName);
  const knownId = await readMarker(queue, markerPath);
  if (knownId !== undefined && !(await exists(queue, path))) throw noPoolNow(poolName, path, knownId, markerPath);
}

async function openDirectoryLocation(options: LocationOptions, path: string): Promise<OpenLocation> {
  const { queue, poolName } = options;
  await refuseMissing(options, path);
  try {
    await queue.run(() => mkdir(path, { mode: 0o700 }));
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
  const nothing = {
    backingFile: undefined,
    isAlone: false,
    hostReserve: undefined,
    grow,
    followDisk: grow,
    settle: grow,
  };
  return { root: path, ...nothing, abandon, close: unlock };
}

async function openFileLocation(
  options: LocationOptions,
  path: string,
  chosenBytes: bigint | undefined,
): Promise<OpenLocation> {
  const { dataDirectory, detachFromDead, queue, poolName } = options;
  const freezes = new Freezes(dataDirectory, poolName, options.log);
  await refuseMissing(options, path);
  const root = await makeMountPoint(queue, poolRoot(dataDirectory, poolName));
  const sizeBytes = chosenBytes ?? (await defaultSizeOf({ queue, poolName, path }));
  const made = await makeBackingFile({ queue, poolName, path }, sizeBytes);
  const lock = made ?? (await takeLock(options, path));
  const unlock = () => lock[Symbol.asyncDispose]();
  const hostReserve = new ReservedSpace(hostReservePath(path));
  try {
    await removeDrafts(queue, path);
    await hostReserve.acquire(queue);
    // Loop devices are found by their file's own name.
    const source = await queue.run(() => realpath(path));
    const place = { ...options, freezes, source, root, isFile: true, hostReserve, detachFromDead };
    const { device, devicePath } = await mountLocation(place);
    return {
      root,
      backingFile: source,
      isAlone: true,
      hostReserve,
      settle: () => settleMounted(freezes, queue, root),
      grow: () => growToFile({ freezes, queue, root, devicePath }, { path: source, device, wantedBytes: sizeBytes }),
      followDisk: async () => undefined,
      abandon: () => void unlock(),
      close: async () => {
        await unmountLocation(queue, root);
        await unlock();
      },
    };
  } catch (error) {
    await unlock();
    throw error;
  }
}

async function openDeviceLocation(options: LocationOptions, devicePath: string): Promise<OpenLocation> {
  const { dataDirectory, detachFromDead, queue, poolName } = options;
  const freezes = new Freezes(dataDirectory, poolName, options.log);
  const root = await makeMountPoint(queue, poolRoot(dataDirectory, poolName));
  const lock = await takeLock(options, devicePath);
  const unlock = () => lock[Symbol.asyncDispose]();
  try {
    const place = {
      ...options,
      freezes,
      root,
      source: devicePath,
      isFile: false,
      hostReserve: undefined,
      detachFromDead,
    };
    await mountLocation(place);
    const follower = new DiskFollower({ freezes, queue, root, devicePath });
    return {
      root,
      backingFile: undefined,
      isAlone: true,
      hostReserve: undefined,
      settle: () => settleMounted(freezes, queue, root),
      grow: () => follower.look(),
      followDisk: () => follower.look(),
      abandon: () => void unlock(),
      close: async () => {
        // Or it would still be in use.
        await follower.rest();
        await unmountLocation(queue, root);
        await unlock();
      },
    };
  } catch (error) {
    await unlock();
    throw error;
  }
}

/** XFS empties its log when it is frozen. A driver that is killed here leaves it so, and the next one thaws it. */
function settleMounted(freezes: Freezes, queue: DiskQueue, root: string): Promise<void> {
  return step('open/settle', () => freezes.briefly(queue, 'pool', root));
}

/** Does not look into the directory: a filesystem that is dead may be mounted there. */
async function makeMountPoint(queue: DiskQueue, root: string): Promise<string> {
  await queue.run(() => mkdir(dirname(root), { recursive: true, mode: 0o700 }));
  try {
    await queue.run(() => mkdir(root, { mode: 0o700 }));
  } catch (error) {
    if (!isErrno(error, 'EEXIST')) throw error;
  }
  return root;
}

async function realDevice(options: LocationOptions, path: string): Promise<string> {
  const { queue, poolName } = options;
  const device = await queue.run(() => realpath(path)).catch(() => undefined);
  const status = device === undefined ? undefined : await queue.run(() => stat(device));
  if (device === undefined || !status?.isBlockDevice()) throw noDevice(poolName, path);
  return device;
}

export function noDevice(poolName: string, path: string): FailedPrecondition {
  return new FailedPrecondition(`pool ${poolName}: ${path} is not a block device of this node.`);
}
