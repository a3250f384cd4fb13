import { constants } from 'node:fs';
import { constants as osConstants } from 'node:os';
import { Descriptor, invokeToOpen, openFile, openFlags } from '../call/descriptor.ts';
import type { DiskQueue } from '../call/disk-queue.ts';
import { isErrno, KernelError } from '../call/errno.ts';
import { invoke, invokeNow, invokeNowUnless, type Lent, libcCall, systemCall } from '../call/libc.ts';
import type { DeviceNumber } from '../device.ts';

export type FileKind = 'directory' | 'file' | 'block' | 'symlink' | 'other';

/** A file's status from statx(2). */
export interface FileStatus {
  readonly kind: FileKind;
  /** The device of its filesystem (on btrfs: of its subvolume). */
  readonly device: DeviceNumber;
  /** The device that a device node stands for. */
  readonly represents: DeviceNumber | undefined;
  readonly inode: bigint;
  /** The same number as in /proc/self/mountinfo. */
  readonly mountId: bigint;
  readonly isMountRoot: boolean;
  readonly sizeBytes: bigint;
  readonly allocatedBytes: bigint;
  /** The number of its names. */
  readonly links: number;
}

const { O_DIRECTORY, O_NOFOLLOW, S_IFMT, S_IFREG, S_IFDIR, S_IFBLK, S_IFLNK } = constants;

const { EAGAIN, ENOENT } = osConstants.errno;
const cacheRefusals = [EAGAIN, ENOENT];

const RESOLVE_NO_MAGICLINKS = 0x02n;
const RESOLVE_NO_SYMLINKS = 0x04n;
const RESOLVE_BENEATH = 0x08n;
const RESOLVE_CACHED = 0x20n;

const AT_FDCWD = -100;
const AT_SYMLINK_NOFOLLOW = 0x100;
const AT_REMOVEDIR = 0x200;
const AT_NO_AUTOMOUNT = 0x800;
const AT_EMPTY_PATH = 0x1000;
const AT_STATX_DONT_SYNC = 0x4000;

const STATX_BASIC_STATS = 0x7ff;
const STATX_MNT_ID = 0x1000;
const STATX_ATTR_MOUNT_ROOT = 0x2000n;
const statxBytes = 256;
/** The unit of st_blocks, independent of the filesystem's block size (stat(2)). */
export const statBlockBytes = 512n;

const openat2Call = systemCall<readonly [number | Lent, string, Uint8Array, number]>('openat2', 437, [
  'int',
  'const char *',
  'void *',
  'size_t',
]);
const statxCall = libcCall<readonly [number | Lent, string, number, number, Uint8Array]>(
  'int statx(int dirfd, const char *path, int flags, uint mask, void *status)',
);
const mkdiratCall = libcCall<readonly [Lent, string, number]>('int mkdirat(int dirfd, const char *path, uint mode)');
const mknodatCall = libcCall<readonly [Lent, string, number, number]>(
  'int mknodat(int dirfd, const char *path, uint mode, uint64_t device)',
);
const unlinkatCall = libcCall<readonly [Lent, string, number]>('int unlinkat(int dirfd, const char *path, int flags)');

/** Opens (O_PATH) a directory whose path an operator configured; symlinks are followed. */
export async function openDirectory(queue: DiskQueue, path: string): Promise<Descriptor> {
  return openCached(path, O_DIRECTORY) ?? (await openFile(queue, path, openFlags.O_PATH | O_DIRECTORY));
}

/**
 * Opens (O_PATH) the file at `relativePath` below `root`; '' or '.' is the root itself. No symlink, no `..` that leads
 * out, and no magic link is followed, the last component included: such a path is ELOOP or EXDEV (openat2(2)).
 * @returns undefined if nothing is there
 */
export async function findBeneath(
  queue: DiskQueue,
  root: Descriptor,
  relativePath: string,
): Promise<Descriptor | undefined> {
  const path = relativePath === '' ? '.' : relativePath;
  const where = pathBeneath(root, path);
  const resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  const cachedFd = tryCached(root, path, { flags: openFlags.O_PATH, resolve, where });
  if (cachedFd === -ENOENT) return undefined;
  if (cachedFd >= 0) return new Descriptor(cachedFd, where, undefined);
  const how = openHow(openFlags.O_PATH, resolve);
  for (let attemptsLeft = 32; ; attemptsLeft--) {
    try {
      const fd = await invokeToOpen(queue, openat2Call, [root, path, how, how.length], where);
      return new Descriptor(fd, where, undefined);
    } catch (error) {
      if (isErrno(error, 'ENOENT')) return undefined;
      // Something was renamed while a `..` was resolved: openat2(2) says to try again.
      if (!isErrno(error, 'EAGAIN') || attemptsLeft === 0) throw error;
    }
  }
}

/** The same for a file that must be there. @throws KernelError ENOENT */
export async function openBeneath(queue: DiskQueue, root: Descriptor, relativePath: string): Promise<Descriptor> {
  const found = await findBeneath(queue, root, relativePath);
  if (found !== undefined) return found;
  throw new KernelError({ syscall: openat2Call.name, errno: ENOENT, path: pathBeneath(root, relativePath) });
}

function pathBeneath(root: Descriptor, relativePath: string): string {
  if (relativePath === '' || relativePath === '.') return root.path;
  return `${root.path === '/' ? '' : root.path}/${relativePath}`;
}

/**
 * Opens a path on this thread if the kernel has all of it in its cache, as it nearly always has. Never waits, neither
 * for a disk nor for a lock (openat2(2), RESOLVE_CACHED).
 * @returns undefined if the kernel has not
 * @throws KernelError ENOENT
 */
function openCached(path: string, flags: number): Descriptor | undefined {
  const fd = tryCached(AT_FDCWD, path, { flags: flags | openFlags.O_PATH, resolve: 0n, where: path });
  if (fd === -ENOENT) throw new KernelError({ syscall: openat2Call.name, errno: ENOENT, path });
  return fd < 0 ? undefined : new Descriptor(fd, path, undefined);
}

interface CachedOpen {
  readonly flags: number;
  readonly resolve: bigint;
  readonly where: string;
}

/** @returns a descriptor; or the negative of EAGAIN if the kernel has not all of the path, of ENOENT if it knows that there is nothing */
function tryCached(root: number | Descriptor, path: string, { flags, resolve, where }: CachedOpen): number {
  const how = openHow(flags, resolve | RESOLVE_CACHED);
  return invokeNowUnless(cacheRefusals, openat2Call, [root, path, how, how.length], where);
}

/** Opens (O_PATH) a path that the kernel has in its cache; symlinks are followed. Never waits. @returns undefined if it has not */
export function openIfCached(path: string): Descriptor | undefined {
  return openCached(path, 0);
}

/** True if the kernel knows from its cache that there is nothing with this path. Never waits; false may mean either. */
export function isMissingByCache(path: string): boolean {
  const fd = tryCached(AT_FDCWD, path, { flags: openFlags.O_PATH, resolve: 0n, where: path });
  if (fd >= 0) new Descriptor(fd, path, undefined).closeNow();
  return fd === -ENOENT;
}

/** struct open_how. */
function openHow(flags: number, resolve: bigint): Buffer {
  const how = Buffer.alloc(24);
  how.writeBigUInt64LE(BigInt(flags | openFlags.O_CLOEXEC), 0);
  how.writeBigUInt64LE(resolve, 16);
  return how;
}

const statusMask = STATX_BASIC_STATS | STATX_MNT_ID;
const statusFlags = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC;

/** statx(2), without following a final symlink, triggering an automount or asking a remote server. */
export async function statusOf(queue: DiskQueue, file: Descriptor | string): Promise<FileStatus> {
  if (typeof file !== 'string') return statusOfOpen(file);
  await using cached = openCached(file, O_NOFOLLOW);
  if (cached !== undefined) return statusOfOpen(cached);
  const status = Buffer.alloc(statxBytes);
  await invoke(queue, statxCall, [AT_FDCWD, file, statusFlags, statusMask, status], file);
  return decodeStatus(status);
}

/** On this thread: an open file has its inode in memory, and with DONT_SYNC no remote filesystem is asked. */
function statusOfOpen(file: Descriptor): FileStatus {
  return decodeStatus(statxOfOpen(file));
}

function statxOfOpen(file: Descriptor): Buffer {
  const status = Buffer.alloc(statxBytes);
  invokeNow(statxCall, [file, '', statusFlags | AT_EMPTY_PATH, statusMask, status], file.path);
  return status;
}

/**
 * statx(2) through a link of /proc (proc_pid_fd(5)), for a file that a process holds, even after a rename or deletion.
 */
export async function statusBehind(queue: DiskQueue, link: string): Promise<FileStatus> {
  const status = Buffer.alloc(statxBytes);
  await invoke(queue, statxCall, [AT_FDCWD, link, AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC, statusMask, status], link);
  return decodeStatus(status);
}

/** A time of a file: seconds since 1970, which may be before that, and nanoseconds. */
export interface FileTime {
  readonly seconds: bigint;
  readonly nanoseconds: number;
}

/** All that a copy of an entry has, but for its name, content and extended attributes. */
export interface EntryStatus extends FileStatus {
  /** Its type and its permissions, as stat(2) has them. */
  readonly mode: number;
  readonly userId: number;
  readonly groupId: number;
  readonly accessed: FileTime;
  readonly modified: FileTime;
  /** The last change of its content or of any of its properties; no program can set it. */
  readonly changed: FileTime;
  /** The number of a device node of any type. */
  readonly nodeOf: DeviceNumber;
}

/** The same of an open file, with its owner, mode and times. */
export function entryStatusOf(file: Descriptor): EntryStatus {
  const status = statxOfOpen(file);
  return {
    ...decodeStatus(status),
    mode: status.readUInt16LE(28),
    userId: status.readUInt32LE(20),
    groupId: status.readUInt32LE(24),
    accessed: { seconds: status.readBigInt64LE(64), nanoseconds: status.readUInt32LE(72) },
    modified: { seconds: status.readBigInt64LE(112), nanoseconds: status.readUInt32LE(120) },
    changed: { seconds: status.readBigInt64LE(96), nanoseconds: status.readUInt32LE(104) },
    nodeOf: { major: status.readUInt32LE(128), minor: status.readUInt32LE(132) },
  };
}

/** The layout of struct statx is the same everywhere (statx(2)). */
function decodeStatus(status: Buffer): FileStatus {
  const kind = kindOf(status.readUInt16LE(28));
  const represents = { major: status.readUInt32LE(128), minor: status.readUInt32LE(132) };
  return {
    kind,
    device: { major: status.readUInt32LE(136), minor: status.readUInt32LE(140) },
    represents: kind === 'block' ? represents : undefined,
    inode: status.readBigUInt64LE(32),
    mountId: status.readBigUInt64LE(144),
    isMountRoot: (status.readBigUInt64LE(8) & STATX_ATTR_MOUNT_ROOT) !== 0n,
    sizeBytes: status.readBigUInt64LE(40),
    allocatedBytes: status.readBigUInt64LE(48) * statBlockBytes,
    links: status.readUInt32LE(16),
  };
}

function kindOf(mode: number): FileKind {
  switch (mode & S_IFMT) {
    case S_IFDIR:
      return 'directory';
    case S_IFREG:
      return 'file';
    case S_IFBLK:
      return 'block';
    case S_IFLNK:
      return 'symlink';
    default:
      return 'other';
  }
}

/** @throws KernelError EEXIST if the name is taken, by a symlink too */
export async function makeDirectoryAt(queue: DiskQueue, parent: Descriptor, name: string, mode: number): Promise<void> {
  await invoke(queue, mkdiratCall, [parent, component(parent, name), mode], `${parent.path}/${name}`);
}

/**
 * Makes an empty file without opening it (mknod(2)).
 * @throws KernelError EEXIST if the name is taken, by a symlink too
 */
export async function makeFileAt(queue: DiskQueue, parent: Descriptor, name: string, mode: number): Promise<void> {
  await invoke(queue, mknodatCall, [parent, component(parent, name), S_IFREG | mode, 0], `${parent.path}/${name}`);
}

/** Removes an empty directory. @throws KernelError EBUSY while something is mounted on it */
export async function removeDirectoryAt(queue: DiskQueue, parent: Descriptor, name: string): Promise<void> {
  await invoke(queue, unlinkatCall, [parent, component(parent, name), AT_REMOVEDIR], `${parent.path}/${name}`);
}

export async function removeFileAt(queue: DiskQueue, parent: Descriptor, name: string): Promise<void> {
  await invoke(queue, unlinkatCall, [parent, component(parent, name), 0], `${parent.path}/${name}`);
}

/** One name below a verified parent: a slash in it would lead elsewhere. */
export function component(parent: Descriptor, name: string): string {
  if (name === '' || name === '.' || name === '..' || name.includes('/')) {
    const detail = 'the name must be one component of a path';
    throw new KernelError({ syscall: 'openat', errno: 22, path: `${parent.path}/${name}`, detail });
  }
  return name;
}
