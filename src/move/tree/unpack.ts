import { createHash } from 'node:crypto';
import { constants } from 'node:fs';
import { type Descriptor, openFile } from '../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { errnoName, isErrno } from '../../kernel/call/errno.ts';
import { readDirect } from '../../kernel/file/direct.ts';
import {
  changeMode,
  changeOwner,
  changeTimes,
  linkIn,
  makeDirectoryIn,
  makeSpecialIn,
  makeSymlinkIn,
  treeName,
  writeAttribute,
} from '../../kernel/file/entry.ts';
import { readAt, resizeFile, writeAt } from '../../kernel/file/file.ts';
import { syncFilesystem } from '../../kernel/file/filesystem.ts';
import { makeFileIn, openEntry, openSubdirectory } from '../../kernel/file/tree.ts';
import { TreeLevels } from '../../kernel/file/tree-levels.ts';
import { DataLoss, FailedPrecondition } from '../../volume/errors.ts';
import { shortPath } from '../../volume/short-path.ts';
import { roundUp } from '../../volume/size.ts';
import type { Pace, Piece } from '../copy.ts';
import { type DataRange, decodeRecords, type TreeRecord, unreadable } from './records.ts';

export interface TreeTarget {
  readonly queue: DiskQueue;
  /** Empty, and beyond the reach of other programs. */
  readonly root: Descriptor;
  /** Empty, too; in the same filesystem, and beside it: entries of several names wait in it for those. */
  readonly links: Descriptor;
}

export interface UnpackWork extends TreeTarget {
  readonly pieces: AsyncIterable<Piece>;
  readonly pace: Pace;
  readonly signal: AbortSignal;
  moved(bytes: bigint): void;
}

/** The bytes and files after which all is synced and compared. The files are open until then. */
const batchBytes = 64 << 20;
const batchFiles = 256;
/** Sectors and blocks of all disks are of this size, or smaller. */
const blockBytes = 4096n;

/** A file, and the ranges of it that were written. */
interface Written {
  readonly file: Descriptor;
  readonly ranges: (DataRange & { readonly digest: Buffer })[];
}

/** An entry that is no directory, until its `done`. */
interface OpenEntry {
  /** A file is open to be read and written, anything else with O_PATH. */
  readonly file: Descriptor;
  readonly kind: 'file' | 'symlink' | 'special';
  readonly sizeBytes: bigint;
  /** All data before it has come. */
  atBytes: bigint;
  /** undefined: it has no data. */
  written: Written | undefined;
}

/**
 * Makes a tree of its pieces, whatever the other end sends: each step makes or opens one name in an open directory, and
 * follows no symlink. Written bytes are read back from the disk, past the page cache, and its digest compared with that
 * of the bytes that were read from the source. When it returns, all is durable.
 * @throws DataLoss if the pieces are no whole tree, or the disk is sick
 */
export async function unpackTree(work: UnpackWork): Promise<void> {
  await using unpacker = new Unpacker(work);
  await unpacker.begin();
  for await (const { data, lengthBytes } of work.pieces) {
    work.signal.throwIfAborted();
    if (data === undefined) throw unreadable('a piece of it is missing');
    await unpacker.take(data);
    data.free();
    work.moved(BigInt(lengthBytes));
    await work.pace.took(BigInt(lengthBytes), work.signal);
  }
  await unpacker.end();
}

class Unpacker implements AsyncDisposable {
  readonly #target: TreeTarget;
  readonly #levels: TreeLevels<object>;
  #entry: OpenEntry | undefined;
  /** The next piece is that. */
  #announced: DataRange | undefined;
  #isWhole = false;
  /** All files with data, since the last sync. */
  #batch = new Batch();
  #settling: Promise<void> = Promise.resolve();

  constructor(target: TreeTarget) {
    this.#target = target;
    this.#levels = new TreeLevels(target.queue);
  }

  async begin(): Promise<void> {
    const { queue, root } = this.#target;
    await this.#levels.push(await openFile(queue, root, constants.O_RDONLY | constants.O_DIRECTORY), {});
  }

  async take(piece: { readonly bytes: Buffer; readonly digest: Buffer }): Promise<void> {
    const announced = this.#announced;
    if (announced !== undefined) {
      this.#announced = undefined;
      return await this.#write(announced, piece);
    }
    if (!digestOf(piece.bytes).equals(piece.digest)) throw unreadable('its bytes have changed on their way');
    for (const record of decodeRecords(piece.bytes)) {
      if (this.#announced !== undefined || this.#isWhole) throw unreadable('it goes on behind its end');
      await this.#apply(record);
    }
  }

  async end(): Promise<void> {
    if (!this.#isWhole) throw unreadable('it is not whole');
    await this.#settleBehind();
    await this.#settling;
    await syncFilesystem(this.#target.queue, this.#target.root);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#settling.catch(() => undefined);
    await this.#entry?.file[Symbol.asyncDispose]();
    await this.#batch[Symbol.asyncDispose]();
    await this.#levels[Symbol.asyncDispose]();
  }

  async #apply(record: TreeRecord): Promise<void> {
    const { top } = this.#levels;
    if (record.type === 'end') {
      if (top !== undefined) throw unreadable('it is not whole');
      this.#isWhole = true;
      return;
    }
    if (top === undefined) throw unreadable('it goes on behind its end');
    switch (record.type) {
      case 'owner':
        return await changeOwner(this.#target.queue, this.#entry?.file ?? top.directory, record);
      case 'attribute':
        return await this.#attribute(this.#entry?.file ?? top.directory, record);
      case 'done':
        return await this.#done(top.directory, record);
      case 'data':
        return this.#announce(record);
    }
    if (this.#entry !== undefined) throw unreadable('an entry of it has no end');
    await this.#make(top.directory, record).catch((error) => {
      // For example, a symlink with a longer target than XFS takes, or a file with more names than ext4 does.
      if (!isErrno(error, 'EFBIG', 'EINVAL', 'EMLINK', 'ENAMETOOLONG', 'ENOTSUP', 'EOPNOTSUPP')) throw error;
      throw cannotKeep(shortPath(`${top.directory.path}/${treeName(record.name).text}`), error);
    });
  }

  async #make(
    parent: Descriptor,
    record: Extract<TreeRecord, { type: 'directory' | 'file' | 'symlink' | 'special' | 'link' }>,
  ): Promise<void> {
    const { links, queue } = this.#target;
    const name = treeName(record.name);
    if (record.type === 'directory') {
      await makeDirectoryIn(queue, parent, name);
      return await this.#levels.push(await openSubdirectory(queue, parent, name), {});
    }
    const waiting = [links, treeName(Buffer.from(String(record.link)))] as const;
    if (record.type === 'link') {
      return await linkIn(queue, waiting, [parent, name]).catch((error) => {
        throw isErrno(error, 'ENOENT') ? unreadable('a name in it is of an entry that has not come') : error;
      });
    }
    if (record.type === 'file') {
      const file = await makeFileIn(queue, parent, name);
      const { sizeBytes } = record;
      this.#entry = { file, kind: 'file', sizeBytes, atBytes: 0n, written: undefined };
      if (sizeBytes > 0n) await resizeFile(queue, file, sizeBytes);
    } else {
      if (record.type === 'symlink') await makeSymlinkIn(queue, parent, name, record.target);
      else {
        const { fileType: type, major, minor } = record;
        await makeSpecialIn(queue, parent, name, { type, nodeOf: { major, minor } });
      }
      const file = await openEntry(queue, parent, name);
      this.#entry = { file, kind: record.type, sizeBytes: 0n, atBytes: 0n, written: undefined };
    }
    if (record.link !== 0) await linkIn(queue, [parent, name], waiting);
  }

  #announce({ lengthBytes, offsetBytes }: DataRange): void {
    const entry = this.#entry;
    const until = offsetBytes + BigInt(lengthBytes);
    if (entry?.kind !== 'file' || offsetBytes < entry.atBytes || until > entry.sizeBytes) {
      throw unreadable('data in it is out of its order');
    }
    entry.atBytes = until;
    this.#announced = { lengthBytes, offsetBytes };
  }

  async #write(
    { lengthBytes, offsetBytes }: DataRange,
    { bytes, digest }: { readonly bytes: Buffer; readonly digest: Buffer },
  ): Promise<void> {
    const entry = this.#entry;
    if (entry === undefined || bytes.length !== lengthBytes) throw unreadable('its data is of another length');
    await writeAt(this.#target.queue, entry.file, bytes, offsetBytes);
    entry.written ??= { file: entry.file, ranges: [] };
    entry.written.ranges.push({ lengthBytes, offsetBytes, digest });
    this.#batch.bytes += lengthBytes;
    if (this.#batch.bytes >= batchBytes) await this.#settleBehind();
  }

  async #attribute(
    entry: Descriptor,
    { name, value }: { readonly name: Buffer; readonly value: Buffer },
  ): Promise<void> {
    await writeAttribute(this.#target.queue, entry, name, value).catch((error) => {
      const text = name.toString('utf8');
      // A label of SELinux that this node does not know: the container runtime gives the files their labels.
      if (text === 'security.selinux' && isErrno(error, 'EINVAL', 'EPERM', 'EACCES', 'ENOTSUP', 'EOPNOTSUPP')) return;
      // ext4 says so of one that is too long for it.
      if (!isErrno(error, 'ENOTSUP', 'EOPNOTSUPP', 'E2BIG', 'ERANGE', 'ENOSPC')) throw error;
      throw cannotKeep(`the extended attribute ${text.slice(0, 40)} of ${shortPath(entry.path)}`, error);
    });
  }

  async #done(directory: Descriptor, record: Extract<TreeRecord, { type: 'done' }>): Promise<void> {
    const { queue } = this.#target;
    const entry = this.#entry;
    const file = entry?.file ?? directory;
    if (entry?.kind !== 'symlink') await changeMode(queue, file, record.mode);
    await changeTimes(queue, file, record);
    if (entry === undefined) return await this.#levels.pop();
    this.#entry = undefined;
    if (entry.written === undefined) return await entry.file[Symbol.asyncDispose]();
    this.#batch.files.push(entry.written);
    if (this.#batch.files.length >= batchFiles) await this.#settleBehind();
  }

  /** The next batch comes meanwhile. */
  async #settleBehind(): Promise<void> {
    const batch = this.#batch;
    const open = this.#entry?.written;
    this.#batch = new Batch();
    if (open !== undefined) batch.open = { file: open.file, ranges: open.ranges.splice(0) };
    const before = this.#settling;
    this.#settling = (async () => {
      await using settled = batch;
      await before;
      await this.#settle(settled);
    })();
    // It is awaited later.
    this.#settling.catch(() => undefined);
    // No more than two batches are in memory.
    await before;
  }

  async #settle({ files, open }: Batch): Promise<void> {
    const { queue, root } = this.#target;
    await syncFilesystem(queue, root);
    for (const written of open === undefined ? files : [...files, open]) await compare(queue, written);
  }
}

function cannotKeep(what: string, error: unknown): FailedPrecondition {
  return new FailedPrecondition(
    `The filesystem of the pool that receives the volume cannot keep ${what} (${errnoName(error)}).`,
  );
}

class Batch implements AsyncDisposable {
  bytes = 0;
  readonly files: Written[] = [];
  /** The part of the file that still comes. */
  open: Written | undefined;

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { file } of this.files.splice(0)) await file[Symbol.asyncDispose]();
  }
}

/** @throws DataLoss if the disk has other bytes than were written */
async function compare(queue: DiskQueue, { file, ranges }: Written): Promise<void> {
  if (ranges.length === 0) return;
  const flags = constants.O_RDONLY | constants.O_NOATIME;
  let isDirect = true;
  await using again = await openFile(queue, file, flags | constants.O_DIRECT).catch((error) => {
    // A filesystem without direct reads.
    if (!isErrno(error, 'EINVAL')) throw error;
    isDirect = false;
    return openFile(queue, file, flags);
  });
  for (const { digest, lengthBytes, offsetBytes } of ranges) {
    const found = isDirect
      ? await readAligned(queue, again, { lengthBytes, offsetBytes })
      : await readAt(queue, again, { offsetBytes: Number(offsetBytes), lengthBytes });
    if (digestOf(found).equals(digest)) continue;
    throw new DataLoss(
      `The file ${shortPath(file.path)} has other bytes at ${offsetBytes} than were written: the disk of the pool that receives the volume is sick. Nothing was moved.`,
    );
  }
}

/** Direct reads are of whole blocks. */
async function readAligned(
  queue: DiskQueue,
  file: Descriptor,
  { lengthBytes, offsetBytes }: DataRange,
): Promise<Buffer> {
  const before = offsetBytes % blockBytes;
  const length = Number(roundUp(before + BigInt(lengthBytes), blockBytes));
  const found = await readDirect(queue, file, { offsetBytes: offsetBytes - before, lengthBytes: length });
  return found.subarray(Number(before), Number(before) + lengthBytes);
}

function digestOf(bytes: Buffer): Buffer {
  return createHash('sha256').update(bytes).digest();
}
