import { readdir, readFile } from 'node:fs/promises';
import type { Descriptor } from '../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { isErrno, KernelError } from '../../kernel/call/errno.ts';
import { type FileStatus, findBeneath, openDirectory, statusOf } from '../../kernel/file/path.ts';
import { InvalidArgument } from '../../volume/errors.ts';
import { shortPath } from '../../volume/short-path.ts';
import type { TargetPath } from './target.ts';

/** A name in a directory that is held open, so that no other directory can be moved under it. */
export class Place implements Disposable {
  readonly parent: Descriptor;
  readonly name: string;
  readonly path: string;

  constructor(parent: Descriptor, name: string, path: string) {
    this.parent = parent;
    this.name = name;
    this.path = path;
  }

  [Symbol.dispose](): void {
    this.parent.closeNow();
  }
}

/**
 * Opens the directory that the target lies in. Symbolic links may lead to the root, which the configuration names, but
 * not on from there: what they point to could change between our look and the mount.
 * @returns undefined if there is no such directory
 * @throws InvalidArgument if the way leads through something that is no directory
 */
export async function openPlace(queue: DiskQueue, target: TargetPath): Promise<Place | undefined> {
  const parent = await openDirectoryBeneath(queue, target.root, target.parent, target.path);
  return parent === undefined ? undefined : new Place(parent, target.name, target.path);
}

/** A name in the target itself, which must then be a directory. Otherwise as `openPlace`. */
export async function openPlaceIn(queue: DiskQueue, target: TargetPath, name: string): Promise<Place | undefined> {
  const directory = target.parent === '' ? target.name : `${target.parent}/${target.name}`;
  const parent = await openDirectoryBeneath(queue, target.root, directory, target.path);
  return parent === undefined ? undefined : new Place(parent, name, `${target.path}/${name}`);
}

async function openDirectoryBeneath(
  queue: DiskQueue,
  rootPath: string,
  directory: string,
  wholePath: string,
): Promise<Descriptor | undefined> {
  try {
    await using root = await openDirectory(queue, rootPath);
    return await findBeneath(queue, root, directory);
  } catch (error) {
    if (isErrno(error, 'ENOENT')) return undefined;
    throw refused(error, wholePath);
  }
}

/** The kernel's error about an unusable path, in our words. */
function refused(error: unknown, path: string): unknown {
  const problem = unusable.get(error instanceof KernelError ? error.code : '');
  return problem === undefined ? error : new InvalidArgument(`${shortPath(path)} ${problem}.`);
}

const unusable: ReadonlyMap<string, string> = new Map([
  ['ELOOP', 'leads through a symbolic link, which is not followed'],
  ['ENOTDIR', 'leads through something that is no directory'],
  ['ENAMETOOLONG', 'is too long for a path'],
]);

/** The object that a name leads to, held open. While it is open it cannot be unmounted: dispose of it first. */
export interface PathHandle extends MountStatus, Disposable {
  readonly descriptor: Descriptor;
}

interface MountStatus extends Omit<FileStatus, 'inode' | 'allocatedBytes' | 'links'> {
  /** The mounted filesystem answers every question with an error. */
  readonly isBroken: boolean;
}

/**
 * Opens the object at the place, or the mount on it.
 * @returns undefined if there is nothing
 * @throws InvalidArgument if it is a symbolic link
 */
export async function openHandle(queue: DiskQueue, place: Place): Promise<PathHandle | undefined> {
  const descriptor = await openAt(queue, place);
  if (descriptor === undefined) return undefined;
  try {
    const status = await mountStatus(queue, place, descriptor);
    return { ...status, descriptor, [Symbol.dispose]: () => descriptor.closeNow() };
  } catch (error) {
    descriptor.closeNow();
    throw error;
  }
}

async function openAt(queue: DiskQueue, place: Place): Promise<Descriptor | undefined> {
  try {
    return await findBeneath(queue, place.parent, place.name);
  } catch (error) {
    throw refused(error, place.path);
  }
}

async function mountStatus(queue: DiskQueue, place: Place, descriptor: Descriptor): Promise<MountStatus> {
  try {
    return { ...(await statusOf(queue, descriptor)), isBroken: false };
  } catch (error) {
    return brokenMountStatus(queue, place, descriptor, error);
  }
}

/**
 * A filesystem that has shut itself down answers EIO to every question, but the mount can still be found out,
 * and undone (UP08): /proc knows the mount behind a descriptor.
 */
async function brokenMountStatus(
  queue: DiskQueue,
  place: Place,
  descriptor: Descriptor,
  error: unknown,
): Promise<MountStatus> {
  const [mountId, parentMountId] = await Promise.all([mountIdOf(queue, descriptor), mountIdOf(queue, place.parent)]);
  if (mountId === undefined || mountId === parentMountId) throw error;
  const device = { major: 0, minor: 0 };
  return {
    kind: 'directory',
    isMountRoot: true,
    mountId,
    device,
    represents: undefined,
    sizeBytes: 0n,
    isBroken: true,
  };
}

async function mountIdOf(queue: DiskQueue, descriptor: Descriptor): Promise<bigint | undefined> {
  const text = await queue.run(() => descriptor.during((_, fd) => readFile(`/proc/self/fdinfo/${fd}`, 'utf8')));
  const digits = /^mnt_id:\s*([0-9]+)$/m.exec(text)?.[1];
  return digits === undefined ? undefined : BigInt(digits);
}

/** True if a directory that is held open has no entries. */
export async function isEmptyDirectory(queue: DiskQueue, directory: Descriptor): Promise<boolean> {
  return (await queue.run(() => directory.during((path) => readdir(path)))).length === 0;
}
