import { constants } from 'node:fs';
import type { Descriptor } from '../call/descriptor.ts';
import type { DiskQueue } from '../call/disk-queue.ts';
import { isErrno } from '../call/errno.ts';
import { invoke, type Lent, libcCall } from '../call/libc.ts';
import { type DeviceNumber, packedNumber } from '../device.ts';
import type { FileTime } from './path.ts';
import type { TreeName } from './tree.ts';

/*
 * Entries of a tree, made and changed in an open directory or by an open entry (O_PATH): no path is walked, and no symlink
 * is followed. A link of /proc/self/fd is the entry itself, also of a symlink (proc_pid_fd(5)).
 */

const AT_FDCWD = -100;
const AT_SYMLINK_NOFOLLOW = 0x100;
const AT_EMPTY_PATH = 0x1000;

const mkdiratCall = libcCall<readonly [Lent, Uint8Array, number]>(
  'int mkdirat(int dirfd, const void *path, uint mode)',
);
const mknodatCall = libcCall<readonly [Lent, Uint8Array, number, bigint]>(
  'int mknodat(int dirfd, const void *path, uint mode, uint64_t device)',
);
const symlinkatCall = libcCall<readonly [Uint8Array, Lent, Uint8Array]>(
  'int symlinkat(const void *target, int dirfd, const void *path)',
);
const linkatCall = libcCall<readonly [Lent, Uint8Array, Lent, Uint8Array, number]>(
  'int linkat(int from, const void *path, int to, const void *newPath, int flags)',
);
const readlinkatCall = libcCall<readonly [Lent, string, Uint8Array, number]>(
  'long readlinkat(int dirfd, const char *path, void *memory, size_t length)',
);
const fchownatCall = libcCall<readonly [Lent, string, number, number, number]>(
  'int fchownat(int dirfd, const char *path, uint owner, uint group, int flags)',
);
const chmodCall = libcCall<readonly [Lent, number]>('int chmod(const char *path, uint mode)');
const utimensatCall = libcCall<readonly [number, Lent | string, Uint8Array | null, number]>(
  'int utimensat(int dirfd, const char *path, void *times, int flags)',
);
const listxattrCall = libcCall<readonly [Lent, Uint8Array | null, number]>(
  'long listxattr(const char *path, void *list, size_t size)',
);
const getxattrCall = libcCall<readonly [Lent, Uint8Array, Uint8Array, number]>(
  'long getxattr(const char *path, const void *name, void *value, size_t size)',
);
const setxattrCall = libcCall<readonly [Lent, Uint8Array, Uint8Array, number, number]>(
  'int setxattr(const char *path, const void *name, void *value, size_t size, int flags)',
);

/** A value, and all names of a file with a NUL behind each, are no longer (xattr(7)). */
export const longestAttributes = 65_536;
/** The target of a symlink is shorter (PATH_MAX). */
const longestTarget = 4096;

/** A name as bytes, which need not be UTF-8. */
export function treeName(bytes: Buffer): TreeName {
  return { bytes: withNul(bytes), text: bytes.toString('utf8') };
}

function withNul(bytes: Buffer): Buffer {
  return Buffer.concat([bytes, Buffer.alloc(1)]);
}

/** For its owner alone. @throws KernelError EEXIST if the name is taken, by a symlink too */
export async function makeDirectoryIn(queue: DiskQueue, parent: Descriptor, name: TreeName): Promise<void> {
  await invoke(queue, mkdiratCall, [parent, name.bytes, 0o700], pathOf(parent, name));
}

export async function makeSymlinkIn(
  queue: DiskQueue,
  parent: Descriptor,
  name: TreeName,
  target: Buffer,
): Promise<void> {
  await invoke(queue, symlinkatCall, [withNul(target), parent, name.bytes], pathOf(parent, name));
}

/** The types of entries that are neither files, directories nor symlinks. */
export const specialTypes: ReadonlySet<number> = new Set([
  constants.S_IFIFO,
  constants.S_IFSOCK,
  constants.S_IFCHR,
  constants.S_IFBLK,
]);

/** A FIFO, socket or device node. */
export async function makeSpecialIn(
  queue: DiskQueue,
  parent: Descriptor,
  name: TreeName,
  { nodeOf, type }: { readonly nodeOf: DeviceNumber; readonly type: number },
): Promise<void> {
  await invoke(queue, mknodatCall, [parent, name.bytes, type | 0o600, packedNumber(nodeOf)], pathOf(parent, name));
}

/** Another name of an entry of any type but a directory, in another open directory. */
export async function linkIn(
  queue: DiskQueue,
  [from, name]: readonly [Descriptor, TreeName],
  [to, newName]: readonly [Descriptor, TreeName],
): Promise<void> {
  await invoke(queue, linkatCall, [from, name.bytes, to, newName.bytes, 0], pathOf(to, newName));
}

/** @param symlink open with O_PATH */
export async function targetOf(queue: DiskQueue, symlink: Descriptor): Promise<Buffer> {
  const memory = Buffer.alloc(longestTarget);
  const length = await invoke(queue, readlinkatCall, [symlink, '', memory, memory.length], symlink.path);
  return memory.subarray(0, length);
}

export async function changeOwner(
  queue: DiskQueue,
  entry: Descriptor,
  { groupId, userId }: { readonly groupId: number; readonly userId: number },
): Promise<void> {
  await invoke(queue, fchownatCall, [entry, '', userId, groupId, AT_EMPTY_PATH], entry.path);
}

/** @param entry no symlink, which has no permissions */
export async function changeMode(queue: DiskQueue, entry: Descriptor, mode: number): Promise<void> {
  await invoke(queue, chmodCall, [entry.asPath, mode], entry.path);
}

export async function changeTimes(
  queue: DiskQueue,
  entry: Descriptor,
  { accessed, modified }: { readonly accessed: FileTime; readonly modified: FileTime },
): Promise<void> {
  const times = Buffer.alloc(32);
  times.writeBigInt64LE(accessed.seconds, 0);
  times.writeBigInt64LE(BigInt(accessed.nanoseconds), 8);
  times.writeBigInt64LE(modified.seconds, 16);
  times.writeBigInt64LE(BigInt(modified.nanoseconds), 24);
  await invoke(queue, utimensatCall, [AT_FDCWD, entry.asPath, times, 0], entry.path);
}

/** Sets the times of a file to now. A symlink is not followed. */
export async function setTimesToNow(queue: DiskQueue, path: string): Promise<void> {
  await invoke(queue, utimensatCall, [AT_FDCWD, path, null, AT_SYMLINK_NOFOLLOW], path);
}

/** The names of the extended attributes of an entry, with those of its ACLs, in the order of their bytes. */
export async function attributesOf(queue: DiskQueue, entry: Descriptor): Promise<Buffer[]> {
  const list = (into: Uint8Array | null, length: number) =>
    invoke(queue, listxattrCall, [entry.asPath, into, length], entry.path);
  const has = await list(null, 0).catch((error) => {
    // A filesystem without any.
    if (isErrno(error, 'ENOTSUP')) return 0;
    throw error;
  });
  if (has === 0) return [];
  const memory = Buffer.alloc(longestAttributes);
  const length = await list(memory, memory.length);
  const names: Buffer[] = [];
  for (let at = 0; at < length; ) {
    const end = memory.indexOf(0, at);
    names.push(memory.subarray(at, end));
    at = end + 1;
  }
  return names.sort(Buffer.compare);
}

export async function readAttribute(queue: DiskQueue, entry: Descriptor, name: Buffer): Promise<Buffer> {
  const memory = Buffer.alloc(longestAttributes);
  const call = [entry.asPath, withNul(name), memory, memory.length] as const;
  const length = await invoke(queue, getxattrCall, call, entry.path);
  // Most values are short, and many are kept at a time.
  return Buffer.from(memory.subarray(0, length));
}

export async function writeAttribute(queue: DiskQueue, entry: Descriptor, name: Buffer, value: Buffer): Promise<void> {
  await invoke(queue, setxattrCall, [entry.asPath, withNul(name), value, value.length, 0], entry.path);
}

function pathOf(parent: Descriptor, { text }: TreeName): string {
  return `${parent.path}/${text}`;
}
