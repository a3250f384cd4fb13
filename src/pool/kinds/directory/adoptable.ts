import { basename, dirname, join, normalize } from 'node:path';
import { type Descriptor, openFile, openFlags } from '../../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { ignoreMissing, isErrno } from '../../../kernel/call/errno.ts';
import { openBeneath, statusOf } from '../../../kernel/file/path.ts';
import { isAtOrBelow } from '../../../kernel/mount/directory-root.ts';
import { placeOf } from '../../../kernel/mount/filesystem-place.ts';
import { findHolders } from '../../../kernel/process/holders.ts';
import { AlreadyExists, FailedPrecondition, InvalidArgument, NotFound, Unavailable } from '../../../volume/errors.ts';
import { describeHolders } from '../../../volume/holder.ts';
import { shortPath } from '../../../volume/short-path.ts';
import type { DirectoryParts } from './directory-backend.ts';

/*
 * Paths that an operator names: of directories that will become volumes, and of places where volumes will become
 * directories. Others may write on the way to them, so no symbolic link is followed.
 */

type Parts = Pick<DirectoryParts, 'layout' | 'name' | 'place' | 'queue'>;

/**
 * The directory that has, or will have, the name at the end of the path; open as O_PATH.
 * @throws InvalidArgument, NotFound, FailedPrecondition if nothing can be renamed between it and the pool
 */
export async function openParent(parts: Parts, path: string): Promise<Descriptor> {
  const { layout, queue } = parts;
  if (!path.startsWith('/') || normalize(path) !== path || basename(path) === '' || path.endsWith('/')) {
    throw new InvalidArgument(`'${path}' is no absolute path without '..', '//' and a slash at its end.`);
  }
  if (basename(path).length > longestNameCharacters) throw tooLong();
  const directory = dirname(path);
  const parent = await openWithoutLinks(queue, directory);
  try {
    const [there, pool] = [await statusOf(queue, parent), await statusOf(queue, layout.root)];
    if (there.mountId !== pool.mountId) throw await notBesidePool(parts, parent, path);
    await refuseInPool(queue, path);
    return parent;
  } catch (error) {
    await parent[Symbol.asyncDispose]();
    throw isErrno(error, 'ENOTDIR') ? new NotFound(`${directory} is no directory of this node.`) : error;
  }
}

/**
 * A directory that will become a volume; open as O_PATH.
 * @throws InvalidArgument, NotFound, FailedPrecondition
 */
export async function openAdoptable(parts: Parts, path: string): Promise<Descriptor> {
  const { layout, name, place, queue } = parts;
  await using parent = await openParent(parts, path);
  const directory = await openBeneath(queue, parent, basename(path)).catch((error) => {
    throw explainOpen(error, path);
  });
  try {
    const status = await statusOf(queue, directory);
    if (status.kind !== 'directory') throw new FailedPrecondition(`${path} is no directory.`);
    if (status.isMountRoot || status.mountId !== (await statusOf(queue, parent)).mountId) {
      throw new FailedPrecondition(
        `Something is mounted at ${path}: only a directory of the pool's filesystem is adopted.`,
      );
    }
    const { root } = await placeOf(queue, directory, path);
    if (isAtOrBelow(place.root, root))
      throw new FailedPrecondition(`Pool ${name} itself lies in ${path} (${layout.root}).`);
    return directory;
  } catch (error) {
    await directory[Symbol.asyncDispose]();
    throw error;
  }
}

/** For adoption and release: an operator would rather wait than not know. */
const holdersTimeoutMs = 60_000;

/**
 * @param exceptPid a process that does not count as a user: this one, which may count the files in it
 * @throws FailedPrecondition if a process has the directory mounted, works in it or has a file of it open
 */
export async function refuseHolders(path: string, exceptPid?: number): Promise<void> {
  const found = await findHolders({ devices: [], directories: [path] }, 'all', holdersTimeoutMs);
  const holders = found.holders.filter((holder) => holder.kind !== 'process' || holder.pid !== exceptPid);
  if (holders.length > 0) {
    const whom = describeHolders({ ...found, holders });
    throw new FailedPrecondition(`${shortPath(path)} is in use ${whom}: stop the workload first.`);
  }
  if (found.isComplete) return;
  throw new Unavailable(`There was no time to find the users of ${path}; try again.`);
}

/** The reason why something could not be moved between a path and the pool. */
export function explainMove(error: unknown, poolName: string, path: string): unknown {
  if (isErrno(error, 'ENOENT')) return new NotFound(`${path} is gone.`);
  if (isErrno(error, 'EEXIST')) return taken(path);
  if (isErrno(error, 'EBUSY')) return new FailedPrecondition(`Something is mounted at ${path}: unmount it first.`);
  if (!isErrno(error, 'EXDEV')) return error;
  return new FailedPrecondition(
    `${shortPath(path)} cannot be moved to or from pool ${poolName}: its directory hands on another quota project, or lies on another mount or subvolume.`,
  );
}

/** The refusal if something is where `release` must put a volume. */
export function taken(path: string): AlreadyExists {
  return new AlreadyExists(`${shortPath(path)} exists: move it away, or release to another path (--to PATH).`);
}

/** NAME_MAX of Linux, in bytes; a name with more characters has more bytes, too. */
const longestNameCharacters = 255;

function tooLong(): InvalidArgument {
  return new InvalidArgument('No path is as long as the one that was given.');
}

async function openWithoutLinks(queue: DiskQueue, path: string): Promise<Descriptor> {
  await using root = await openFile(queue, '/', openFlags.O_PATH);
  return await openBeneath(queue, root, path.slice(1)).catch((error) => {
    throw explainOpen(error, path);
  });
}

function explainOpen(error: unknown, path: string): unknown {
  if (isErrno(error, 'ENOENT', 'ENOTDIR')) {
    return new NotFound(`There is no ${path} that this driver can see; in a container, it must be mounted there.`);
  }
  if (isErrno(error, 'ENAMETOOLONG')) return tooLong();
  if (!isErrno(error, 'ELOOP', 'EXDEV')) return error;
  return new FailedPrecondition(
    `${shortPath(path)} is, or lies behind, a symbolic link: name the directory itself (see realpath).`,
  );
}

async function notBesidePool({ name, place, queue }: Parts, parent: Descriptor, path: string): Promise<Error> {
  const { device } = await placeOf(queue, parent, dirname(path));
  const isSame = device.major === place.device.major && device.minor === place.device.minor;
  return new FailedPrecondition(
    isSame
      ? `${shortPath(path)} and pool ${name} lie on two mounts of one filesystem, and nothing can be renamed between those: give the driver one mount that has both.`
      : `${shortPath(path)} is not on the filesystem of pool ${name}: volumes are adopted from there, and released to there, only.`,
  );
}

/** Names in a pool's own directory, whatever its kind. */
const poolNames = ['pool.json', 'volumes', 'trash'];

/** A path inside of a pool, this one or another, belongs to that pool. */
async function refuseInPool(queue: DiskQueue, path: string): Promise<void> {
  for (let directory = path; directory !== '/'; directory = dirname(directory)) {
    const found = await Promise.all(poolNames.map((name) => isThere(queue, join(directory, name))));
    if (!found.every(Boolean)) continue;
    const where = directory === path ? 'is' : `lies in ${directory}, which is`;
    throw new FailedPrecondition(`${path} ${where} the directory of a pool.`);
  }
}

async function isThere(queue: DiskQueue, path: string): Promise<boolean> {
  const ignore = (error: unknown) => (isErrno(error, 'ENOTDIR', 'ELOOP') ? undefined : ignoreMissing(error));
  return (await statusOf(queue, path).catch(ignore)) !== undefined;
}
