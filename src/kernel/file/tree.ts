import { constants } from 'node:fs';
import { Descriptor, invokeToOpen, openFile, openFlags } from '../call/descriptor.ts';
import type { DiskQueue } from '../call/disk-queue.ts';
import { ignoreMissing } from '../call/errno.ts';
import { invoke, type Lent, libcCall, systemCall } from '../call/libc.ts';
import { type FileStatus, statusOf } from './path.ts';
import { seekTo } from './sparse.ts';
import { TreeLevels } from './tree-levels.ts';

/*
 * Trees that belong to others: a pod may have put anything into them, and may still have a part open. So each step
 * opens one name in an open directory, follows no symlink and enters no mount (openat2(2)). Names are bytes, as they
 * need not be UTF-8.
 */

const { O_RDONLY, O_RDWR, O_CREAT, O_EXCL, O_DIRECTORY, O_NOATIME, O_NOFOLLOW, O_NONBLOCK } = constants;
const RESOLVE_NO_XDEV = 0x01n;
const RESOLVE_NO_MAGICLINKS = 0x02n;
const RESOLVE_NO_SYMLINKS = 0x04n;
const RESOLVE_BENEATH = 0x08n;
const howBytes = 24;

const openat2Call = systemCall<readonly [Lent, Uint8Array, Uint8Array, number]>('openat2', 437, [
  'int',
  'void *',
  'void *',
  'size_t',
]);
const getdentsCall = libcCall<readonly [Lent, Uint8Array, number]>(
  'long getdents64(int fd, void *memory, size_t length)',
);

/** A name in a directory. */
export interface TreeName {
  /** The name with the final NUL of C. */
  readonly bytes: Buffer;
  /** For messages. */
  readonly text: string;
}

/** Characters of a path: PATH_MAX, and the beginning that is kept of a longer one. */
const longestPath = 4096;
const keptOfPath = 200;
/** Size of the part of a directory that is in memory at a time. */
const namesBytes = 64 * 1024;
/** struct linux_dirent64 (getdents64(2)). */
const nextAt = 8;
const recordLengthAt = 16;
const nameAt = 19;

/** A name, and the position of its directory behind it (telldir(3)). */
export interface PlacedName extends TreeName {
  readonly next: bigint;
}

/** The next names of an open directory; none at its end. */
export async function nextNames(queue: DiskQueue, directory: Descriptor): Promise<PlacedName[]> {
  const memory = Buffer.alloc(namesBytes);
  const length = await invoke(queue, getdentsCall, [directory, memory, memory.length], directory.path);
  const names: PlacedName[] = [];
  for (let at = 0; at < length; at += memory.readUInt16LE(at + recordLengthAt)) {
    const start = at + nameAt;
    const end = memory.indexOf(0, start);
    const text = memory.toString('utf8', start, end);
    const next = memory.readBigInt64LE(at + nextAt);
    if (text !== '.' && text !== '..') names.push({ bytes: memory.subarray(start, end + 1), text, next });
  }
  // A page with nothing but these two is not the end.
  return names.length === 0 && length > 0 ? nextNames(queue, directory) : names;
}

/** The place of a walk in a directory. */
export interface WalkPlace {
  names: readonly PlacedName[];
  at: number;
  /** The position behind the last name that was taken. */
  after: bigint;
}

export function walkStart(): WalkPlace {
  return { names: [], at: 0, after: 0n };
}

/** The names that are left are read again when the walk comes back. */
export function leaveNames(place: WalkPlace): void {
  Object.assign(place, { names: [], at: 0 });
}

/** The next name of a directory; undefined at its end. */
export async function nextName(
  queue: DiskQueue,
  directory: Descriptor,
  place: WalkPlace,
): Promise<PlacedName | undefined> {
  if (place.at === place.names.length) {
    await seekTo(queue, directory, place.after);
    place.names = await nextNames(queue, directory);
    place.at = 0;
  }
  const name = place.names[place.at++];
  if (name !== undefined) place.after = name.next;
  return name;
}

/** Opens a directory in a directory for reading. @throws KernelError EXDEV if something is mounted on it */
export function openSubdirectory(queue: DiskQueue, directory: Descriptor, name: TreeName): Promise<Descriptor> {
  return openName(queue, directory, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
}

/** Opens (O_PATH) an entry of any type, even a symlink. @throws KernelError EXDEV if something is mounted on it */
export function openEntry(queue: DiskQueue, directory: Descriptor, name: TreeName): Promise<Descriptor> {
  return openName(queue, directory, name, openFlags.O_PATH | O_NOFOLLOW);
}

/** Makes a file for its owner alone. @throws KernelError EEXIST if the name is taken, by a symlink too */
export function makeFileIn(queue: DiskQueue, directory: Descriptor, name: TreeName): Promise<Descriptor> {
  return openName(queue, directory, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600);
}

/** For messages. Each level of a deep tree has its path, and all of them together must not take much memory. */
function pathBelow(path: string, name: string): string {
  return path.length > longestPath ? `${path.slice(0, keptOfPath)}/.../${name}` : `${path}/${name}`;
}

async function openName(
  queue: DiskQueue,
  directory: Descriptor,
  name: TreeName,
  flags: number,
  mode = 0,
): Promise<Descriptor> {
  const how = Buffer.alloc(howBytes);
  how.writeBigUInt64LE(BigInt(flags | openFlags.O_CLOEXEC), 0);
  how.writeBigUInt64LE(BigInt(mode), 8);
  how.writeBigUInt64LE(RESOLVE_BENEATH | RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS, 16);
  const path = pathBelow(directory.path, name.text);
  const fd = await invokeToOpen(queue, openat2Call, [directory, name.bytes, how, how.length], path);
  return new Descriptor(fd, path, (flags & openFlags.O_PATH) === 0 ? queue : undefined);
}

/** An entry of a tree: a regular file or directory is open for reading, everything else with O_PATH. */
export interface TreeEntry {
  readonly file: Descriptor;
  readonly status: FileStatus;
}

export interface WalkOptions {
  readonly signal?: AbortSignal | undefined;
  /** The tree may change meanwhile: a name that is gone when its turn comes is skipped, and a directory ends where it went. */
  readonly isInUse?: boolean;
  /** False: files come with O_PATH, too, in less than half of the time. */
  readonly opensFiles?: boolean;
}

/**
 * Visits a directory and everything below it, each directory before its entries.
 * @throws KernelError EXDEV if something is mounted in it; ELOOP if it is deeper than anything that programs make;
 * ENOENT for a name that is gone, unless the tree is in use; ESTALE, or ENOENT, if a directory far above was moved or removed
 */
export async function walkTree(
  queue: DiskQueue,
  root: Descriptor,
  visit: (entry: TreeEntry) => Promise<void>,
  { isInUse = false, opensFiles = true, signal }: WalkOptions = {},
): Promise<void> {
  await using levels = new TreeLevels<WalkPlace>(queue);
  await enter(await openFile(queue, root, O_RDONLY | O_DIRECTORY | O_NOATIME));
  for (let { top } = levels; top !== undefined; top = levels.top) {
    signal?.throwIfAborted();
    const name = await unlessGone(nextName(queue, top.directory, top.state));
    if (name === undefined) await levels.pop();
    else await unlessGone(visitName(top.directory, name));
  }

  async function unlessGone<T>(work: Promise<T>): Promise<T | undefined> {
    return await (isInUse ? work.catch(ignoreMissing) : work);
  }

  async function enter(directory: Descriptor): Promise<void> {
    await levels.push(directory, walkStart(), leaveNames);
    await visit({ file: directory, status: await statusOf(queue, directory) });
  }

  async function visitName(parent: Descriptor, name: TreeName): Promise<void> {
    await using entry = await openEntry(queue, parent, name);
    const status = await statusOf(queue, entry);
    if (status.kind === 'directory')
      return await enter(await openFile(queue, entry, O_RDONLY | O_DIRECTORY | O_NOATIME));
    if (status.kind !== 'file' || !opensFiles) return await visit({ file: entry, status });
    await using file = await openFile(queue, entry, O_RDONLY | O_NONBLOCK);
    await visit({ file, status });
  }
}
