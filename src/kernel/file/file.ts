import { constants } from 'node:fs';
import { readFile, statfs } from 'node:fs/promises';
import { type Descriptor, openFile, openReadOnly } from '../call/descriptor.ts';
import type { DiskQueue } from '../call/disk-queue.ts';
import { ignoreMissing, isErrno } from '../call/errno.ts';
import { invoke, type Lent, libcCall } from '../call/libc.ts';
import { filesystemType } from './filesystem-type.ts';
import { statusOf } from './path.ts';

const fallocateCall = libcCall<readonly [Lent, number, bigint, bigint]>(
  'int fallocate(int fd, int mode, int64_t offset, int64_t length)',
);
const ftruncateCall = libcCall<readonly [Lent, bigint]>('int ftruncate(int fd, int64_t length)');
const preadCall = libcCall<readonly [Lent, Uint8Array, number, number | bigint]>(
  'long pread(int fd, void *memory, size_t size, int64_t offset)',
);
const pwriteCall = libcCall<readonly [Lent, Uint8Array, number, bigint]>(
  'long pwrite(int fd, void *memory, size_t size, int64_t offset)',
);
const fsyncCall = libcCall<readonly [Lent]>('int fsync(int fd)');
const fremovexattrCall = libcCall<readonly [Lent, Uint8Array]>('int fremovexattr(int fd, const void *name)');
const syncFileRangeCall = libcCall<readonly [Lent, bigint, bigint, number]>(
  'int sync_file_range(int fd, int64_t offset, int64_t length, uint flags)',
);
const posixFadviseCall = libcCall<readonly [Lent, bigint, bigint, number]>(
  'int posix_fadvise(int fd, int64_t offset, int64_t length, int advice)',
);
const POSIX_FADV_DONTNEED = 4;
/** linux/fs.h: wait before, write, wait after. */
const SYNC_FILE_RANGE_WRITE_AND_WAIT = 7;

/** Makes a file that must not exist yet, only for its owner. The caller syncs the directory. */
export function createFile(queue: DiskQueue, path: string): Promise<Descriptor> {
  return openFile(queue, path, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL, 0o600);
}

/** Allocates blocks for the first `sizeBytes` of the file, and enlarges it if it is smaller (fallocate(2)). */
export async function allocate(queue: DiskQueue, file: Descriptor | string, sizeBytes: bigint): Promise<void> {
  if (typeof file === 'string') {
    await using opened = await openFile(queue, file, constants.O_WRONLY);
    return await allocate(queue, opened, sizeBytes);
  }
  for (;;) {
    try {
      await invoke(queue, fallocateCall, [file, 0, 0n, sizeBytes], file.path);
      return;
    } catch (error) {
      // A signal can interrupt a large allocation; allocated blocks stay, and the next try continues.
      if (!isErrno(error, 'EINTR')) throw error;
    }
  }
}

/** Sets the file's size; the caller syncs. Node's own truncate stops at 2^53 (ftruncate(2)). */
export async function resizeFile(queue: DiskQueue, file: Descriptor | string, sizeBytes: bigint): Promise<void> {
  if (typeof file === 'string') {
    await using opened = await openFile(queue, file, constants.O_WRONLY);
    return await resizeFile(queue, opened, sizeBytes);
  }
  await invoke(queue, ftruncateCall, [file, sizeBytes], file.path);
}

interface FileRange {
  readonly lengthBytes: number;
  readonly offsetBytes: number;
}

/**
 * Reads a complete range of a file or device. A disk with an unreadable part returns the data before it, and reports an
 * error only for the rest.
 * @throws KernelError, RangeError if it ends before
 */
export async function readAt(queue: DiskQueue, file: Descriptor, range: FileRange): Promise<Buffer> {
  const memory = Buffer.alloc(range.lengthBytes);
  await readExactly(queue, file, memory, BigInt(range.offsetBytes));
  return memory;
}

/** The same for a file that may end before: then returns less. */
export async function readAtMost(
  queue: DiskQueue,
  file: Descriptor,
  { lengthBytes, offsetBytes }: FileRange,
): Promise<Buffer> {
  const memory = Buffer.alloc(lengthBytes);
  return memory.subarray(0, await readFully(queue, file, memory, BigInt(offsetBytes)));
}

/** Reads a small file as a whole; undefined: it is not there. */
export function readIfThere(queue: DiskQueue, path: string): Promise<string | undefined> {
  return queue.run(() => readFile(path, 'utf8')).catch(ignoreMissing);
}

/** Fills the caller's memory. @throws KernelError, RangeError if the file ends before */
export async function readExactly(
  queue: DiskQueue,
  file: Descriptor,
  memory: Buffer,
  offsetBytes: bigint,
): Promise<void> {
  const length = await readFully(queue, file, memory, offsetBytes);
  if (length < memory.length) throw new RangeError(`${file.path} ended at ${offsetBytes + BigInt(length)}`);
}

/** Reads into the caller's memory by as many calls as it takes. @returns the number of bytes: less only at the end */
export async function readFully(
  queue: DiskQueue,
  file: Descriptor,
  memory: Buffer,
  offsetBytes: bigint,
): Promise<number> {
  for (let length = 0; ; ) {
    const at = offsetBytes + BigInt(length);
    const more = length < memory.length ? await readInto(queue, file, memory.subarray(length), at) : 0;
    if (more === 0) return length;
    length += more;
  }
}

/** The smallest unit of a disk in the page cache. */
const pieceBytes = 4096;
/** The content of blank flash. */
export const unreadableByte = 0xff;

/**
 * The same for structures that are stored twice, where one bad sector must not lose both: a piece that cannot be read
 * is returned as 0xff, which matches no structure.
 */
export async function readWhatCan(queue: DiskQueue, file: Descriptor, range: FileRange): Promise<Buffer> {
  try {
    return await readAt(queue, file, range);
  } catch (error) {
    if (!isErrno(error, 'EIO', 'EREMOTEIO', 'ENODATA', 'EILSEQ')) throw error;
  }
  const memory = Buffer.alloc(range.lengthBytes, unreadableByte);
  for (let at = 0; at < memory.length; at += pieceBytes) {
    const piece = memory.subarray(at, at + pieceBytes);
    try {
      await readInto(queue, file, piece, range.offsetBytes + at);
    } catch (error) {
      if (!isErrno(error, 'EIO', 'EREMOTEIO', 'ENODATA', 'EILSEQ')) throw error;
      piece.fill(unreadableByte);
    }
  }
  return memory;
}

/**
 * Reads into the caller's memory (pread(2)), by one call: less at the end, and before an unreadable part. @returns the
 * number of bytes
 */
export function readInto(
  queue: DiskQueue,
  file: Descriptor,
  memory: Buffer,
  offsetBytes: number | bigint,
): Promise<number> {
  return invoke(queue, preadCall, [file, memory, memory.length, offsetBytes], file.path);
}

/** Writes memory to a file at an offset (pwrite(2)); the caller syncs. */
export async function writeAt(queue: DiskQueue, file: Descriptor, memory: Buffer, offsetBytes: bigint): Promise<void> {
  for (let written = 0; written < memory.length; ) {
    const rest = memory.subarray(written);
    written += await invoke(queue, pwriteCall, [file, rest, rest.length, offsetBytes + BigInt(written)], file.path);
  }
}

/** Puts the content of a file, or of a device, on stable storage (fsync(2)). */
export async function syncFile(queue: DiskQueue, file: Descriptor | string): Promise<void> {
  if (typeof file === 'string') {
    await using opened = await openReadOnly(queue, file);
    return await syncFile(queue, opened);
  }
  await invoke(queue, fsyncCall, [file], file.path);
}

/** An extended attribute that nothing has. */
const noAttribute = 'trusted.holdfast.none';

/**
 * Puts the names in a directory on stable storage. fsync(2) does not notice a commit that failed for another caller: the
 * names are given up then, nothing is left to be written, and XFS and ext4 answer 0. But a filesystem that has failed
 * begins no change any more. So one is tried after the sync that changes nothing. An XFS that has failed answers no
 * question about a file either (xfs_vn_getattr in fs/xfs/xfs_iops.c), which takes no worker thread.
 * @param type of the filesystem, if it is known (filesystem-type.ts)
 * @throws KernelError EIO, EROFS
 */
export async function syncDirectory(
  queue: DiskQueue,
  directory: Descriptor | string,
  type?: bigint | undefined,
): Promise<void> {
  if (typeof directory === 'string') {
    await using opened = await openReadOnly(queue, directory);
    return await syncDirectory(queue, opened, type);
  }
  await syncFile(queue, directory);
  if (type === filesystemType.xfs) {
    // The queue hears of a disk that fails.
    await statusOf(queue, directory).catch((error) => queue.run(() => Promise.reject(error)));
    return;
  }
  await removeAttribute(queue, directory, noAttribute).catch((error: unknown) => {
    if (!isErrno(error, 'EPERM', 'EACCES')) throw error;
  });
}

/** It may have none of this name, or a filesystem that knows no such attributes, as NFS. @param file open to be read */
export async function removeAttribute(queue: DiskQueue, file: Descriptor, name: string | Buffer): Promise<void> {
  await invoke(queue, fremovexattrCall, [file, Buffer.concat([Buffer.from(name), Buffer.of(0)])], file.path).catch(
    (error: unknown) => {
      if (!isErrno(error, 'ENODATA', 'ENOTSUP')) throw error;
    },
  );
}

/**
 * The next read of bytes that were synced comes from the disk. A direct read does so anyway, but not of compressed extents
 * of btrfs, and not on every filesystem.
 */
export async function dropCached(queue: DiskQueue, file: Descriptor): Promise<void> {
  await invoke(queue, posixFadviseCall, [file, 0n, 0n, POSIX_FADV_DONTNEED], file.path);
}

/**
 * Waits until the disk has the file's content, be it in the disk's cache. What the filesystem knows of it may be in memory
 * (sync_file_range(2)): durable it becomes by a commit of the filesystem's journal (`journal.ts`).
 * @throws KernelError EIO if it could not be written
 */
export async function writeOut(queue: DiskQueue, file: Descriptor): Promise<void> {
  await invoke(queue, syncFileRangeCall, [file, 0n, 0n, SYNC_FILE_RANGE_WRITE_AND_WAIT], file.path);
}

/**
 * fsync for directories that many calls change at once. One sync of a directory runs at a time. All callers that come
 * before the next one begins share it. A sync in progress is never shared: it might not cover the caller's change.
 */
export class DirectorySync {
  readonly #notBegun = new Map<string, Promise<void>>();
  readonly #latest = new Map<string, Promise<void>>();
  readonly #persistent: ReadonlySet<string>;
  readonly #held = new Map<string, HeldDirectory>();

  /** @param persistent directories that are synced often: they are kept open */
  constructor(persistent: readonly string[] = []) {
    this.#persistent = new Set(persistent);
  }

  sync(queue: DiskQueue, path: string): Promise<void> {
    const shared = this.#notBegun.get(path);
    if (shared !== undefined) return shared;
    const next = this.#syncAfter(this.#latest.get(path), queue, path);
    this.#notBegun.set(path, next);
    this.#latest.set(path, next);
    const forget = () => {
      if (this.#latest.get(path) === next) this.#latest.delete(path);
    };
    next.then(forget, forget);
    return next;
  }

  async #syncAfter(previous: Promise<void> | undefined, queue: DiskQueue, path: string): Promise<void> {
    // A failure of the sync before concerns only the callers that shared it.
    await Promise.allSettled([previous]);
    let held: HeldDirectory;
    try {
      held = this.#persistent.has(path)
        ? await this.#hold(queue, path)
        : { directory: await openReadOnly(queue, path), type: undefined };
    } finally {
      this.#notBegun.delete(path);
    }
    try {
      await syncDirectory(queue, held.directory, held.type);
    } finally {
      if (!this.#persistent.has(path)) held.directory.closeLater();
    }
  }

  /** One of the directories that are kept open. It belongs to this object. */
  async kept(queue: DiskQueue, path: string): Promise<Descriptor> {
    if (!this.#persistent.has(path)) throw new RangeError(`${path} is not kept open`);
    return (await this.#hold(queue, path)).directory;
  }

  async #hold(queue: DiskQueue, path: string): Promise<HeldDirectory> {
    const before = this.#held.get(path);
    if (before !== undefined) return before;
    const directory = await openReadOnly(queue, path);
    const { type } = await queue
      .run(() => directory.during((procPath) => statfs(procPath, { bigint: true })))
      .catch((error: unknown) => {
        directory.closeLater();
        throw error;
      });
    // Another call may have opened it meanwhile.
    const meanwhile = this.#held.get(path);
    if (meanwhile === undefined) this.#held.set(path, { directory, type });
    else directory.closeLater();
    return meanwhile ?? { directory, type };
  }

  /** Closes the directories that are kept open, after the last sync. */
  async close(): Promise<void> {
    for (const { directory } of this.#held.values()) await directory[Symbol.asyncDispose]();
    this.#held.clear();
  }
}

interface HeldDirectory {
  readonly directory: Descriptor;
  /** The type of its filesystem. */
  readonly type: bigint | undefined;
}
