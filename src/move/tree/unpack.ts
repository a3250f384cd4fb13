import { constants } from 'node:fs';
import { type Descriptor, openFile } from '../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { errnoName, isErrno } from '../../kernel/call/errno.ts';
import { openPastCache } from '../../kernel/file/direct.ts';
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
import { dropCached, readFully, readInto, removeAttribute, resizeFile, writeAt } from '../../kernel/file/file.ts';
import { syncFilesystem } from '../../kernel/file/filesystem.ts';
import { entryStatusOf } from '../../kernel/file/path.ts';
import { makeFileIn, openEntry, openSubdirectory, type TreeName } from '../../kernel/file/tree.ts';
import { TreeLevels } from '../../kernel/file/tree-levels.ts';
import { DataLoss, FailedPrecondition, ResourceExhausted } from '../../volume/errors.ts';
import { shortPath } from '../../volume/short-path.ts';
import { roundUp } from '../../volume/size.ts';
import { blockBytes, type Pace, type Piece, type PieceData, pieceBytes, requireWholeBlocks } from '../copy.ts';
import { InFlight } from '../in-flight.ts';
import { PieceMemory } from '../piece-memory.ts';
import { dataDigest, recordsDigest } from './digest.ts';
import { type DataRange, decodeRecords, type TreeRecord, unreadable } from './records.ts';
import { bytesOf, moreThanItsSize } from './room.ts';

export interface TreeTarget {
  readonly queue: DiskQueue;
  /** Empty, and beyond the reach of other programs. */
  readonly root: Descriptor;
  /** Empty, too; in the same filesystem, and beside it: entries of several names wait in it for those. */
  readonly links: Descriptor;
}

export interface UnpackWork extends TreeTarget {
  /** The limit of its data, entries and attributes together. */
  readonly limitBytes: bigint;
  readonly pieces: AsyncIterable<Piece>;
  readonly pace: Pace;
  readonly signal: AbortSignal;
  moved(bytes: bigint): void;
}

/** The bytes and files after which all is synced and compared. The files are open until then. */
const batchBytes = 64 << 20;
const batchFiles = 256;
/** The number of entries whose calls go on while the next ones come, and of files that are compared at a time. */
const entriesAtOnce = 8;
const comparesAtOnce = 4;

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
  /** The calls for it, one after the other. */
  calls: Promise<void>;
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
    work.moved(BigInt(lengthBytes));
    await work.pace.took(BigInt(lengthBytes), work.signal);
  }
  await unpacker.end();
}

class Unpacker implements AsyncDisposable {
  readonly #target: UnpackWork;
  readonly #levels: TreeLevels<object>;
  #entry: OpenEntry | undefined;
  /** The next piece is that. */
  #announced: DataRange | undefined;
  #isWhole = false;
  /** All files with data, since the last sync. */
  #batch = new Batch();
  #settling: Promise<void> = Promise.resolve();
  /** Entries that have come, and whose calls go on. */
  readonly #finishing = new InFlight();
  /** The bytes of all that has come, as the filesystem takes them. */
  #takenBytes = 0n;

  constructor(target: UnpackWork) {
    this.#target = target;
    this.#levels = new TreeLevels(target.queue);
  }

  async begin(): Promise<void> {
    const { queue, root } = this.#target;
    // All entries would inherit those of the directory around it.
    for (const acl of ['system.posix_acl_default', 'system.posix_acl_access']) await removeAttribute(queue, root, acl);
    await this.#levels.push(await openFile(queue, root, constants.O_RDONLY | constants.O_DIRECTORY), {});
  }

  async take(piece: PieceData): Promise<void> {
    const announced = this.#announced;
    if (announced !== undefined) {
      this.#announced = undefined;
      return await this.#write(announced, piece);
    }
    if (!recordsDigest(piece.bytes).equals(piece.digest)) throw unreadable('its bytes have changed on their way');
    for (const record of decodeRecords(piece.bytes)) {
      if (this.#announced !== undefined || this.#isWhole) throw unreadable('it goes on behind its end');
      this.#takeRoom(BigInt(bytesOf(record)));
      await this.#apply(record);
    }
    piece.free();
  }

  async end(): Promise<void> {
    if (!this.#isWhole) throw unreadable('it is not whole');
    await this.#settleBehind();
    await this.#settling;
    await syncFilesystem(this.#target.queue, this.#target.root);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#entry?.calls.catch(() => undefined);
    await this.#finishing.ended();
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
        return await this.#call(top.directory, (file) => changeOwner(this.#target.queue, file, record));
      case 'attribute': {
        // The memory of the piece is used again.
        const [name, value] = [Buffer.from(record.name), Buffer.from(record.value)];
        return await this.#call(top.directory, (file) => this.#attribute(file, { name, value }));
      }
      case 'done':
        return await this.#done(top.directory, record);
      case 'data':
        return this.#announce(record);
    }
    if (this.#entry !== undefined) throw unreadable('an entry of it has no end');
    if (record.type === 'names') return await this.#requireNames(record);
    await this.#make(top.directory, record).catch((error) => {
      // For example, a symlink with a longer target than XFS takes, or a file with more names than ext4 does.
      if (!isErrno(error, 'EFBIG', 'EINVAL', 'EMLINK', 'ENAMETOOLONG', 'ENOTSUP')) throw error;
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
    const waiting = [links, waitingName(record.link)] as const;
    if (record.type === 'link') {
      return await linkIn(queue, waiting, [parent, name]).catch((error) => {
        throw isErrno(error, 'ENOENT') ? unreadable('a name in it is of an entry that has not come') : error;
      });
    }
    if (record.type === 'file') {
      const file = await makeFileIn(queue, parent, name);
      const { sizeBytes } = record;
      this.#entry = { file, kind: 'file', sizeBytes, ...untouched() };
    } else {
      if (record.type === 'symlink') await makeSymlinkIn(queue, parent, name, record.target);
      else {
        const { fileType: type, major, minor } = record;
        await makeSpecialIn(queue, parent, name, { type, nodeOf: { major, minor } });
      }
      const file = await openEntry(queue, parent, name);
      this.#entry = { file, kind: record.type, sizeBytes: 0n, ...untouched() };
    }
    if (record.link !== 0) await linkIn(queue, [parent, name], waiting);
  }

  /** An entry is one here, too, with as many names as in the source. */
  async #requireNames({ link, names }: Extract<TreeRecord, { type: 'names' }>): Promise<void> {
    const { links, queue } = this.#target;
    await using entry = await openEntry(queue, links, waitingName(link)).catch((error) => {
      throw isErrno(error, 'ENOENT') ? unreadable('it counts the names of an entry that has not come') : error;
    });
    // One of them is for those that have not come yet.
    const found = entryStatusOf(entry).links - 1;
    if (found !== names) throw unreadable(`an entry of it has ${names} names, and ${found} of them have come`);
  }

  /** Makes a call for the entry that came last, behind its other calls; or for the directory. */
  async #call(directory: Descriptor, call: (file: Descriptor) => Promise<void>): Promise<void> {
    const entry = this.#entry;
    if (entry === undefined) {
      // A change of its entries would change it, too.
      await this.#finishing.fewerThan(1);
      return await call(directory);
    }
    entry.calls = entry.calls.then(() => call(entry.file));
    // It is awaited later.
    entry.calls.catch(() => undefined);
  }

  /** Neither every filesystem nor every pool holds the size of a volume, and another node sends what it likes. */
  #takeRoom(bytes: bigint): void {
    this.#takenBytes += bytes;
    if (this.#takenBytes > this.#target.limitBytes) throw new ResourceExhausted(moreThanItsSize);
  }

  #announce({ lengthBytes, offsetBytes }: DataRange): void {
    const entry = this.#entry;
    const until = offsetBytes + BigInt(lengthBytes);
    if (entry?.kind !== 'file' || offsetBytes < entry.atBytes || until > entry.sizeBytes) {
      throw unreadable('data in it is out of its order');
    }
    requireWholeBlocks({ lengthBytes, offsetBytes }, entry.sizeBytes);
    entry.atBytes = until;
    this.#announced = { lengthBytes, offsetBytes };
  }

  async #write({ lengthBytes, offsetBytes }: DataRange, piece: PieceData): Promise<void> {
    const { queue } = this.#target;
    const { bytes, digest } = piece;
    const entry = this.#entry;
    if (entry === undefined || bytes.length !== lengthBytes) throw unreadable('its data is of another length');
    this.#takeRoom(roundUp(BigInt(lengthBytes), blockBytes));
    // One is written while the next one comes.
    await entry.calls;
    entry.calls = writeAt(queue, entry.file, bytes, offsetBytes).then(() => piece.free());
    entry.calls.catch(() => undefined);
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
      if (text === 'security.selinux' && isErrno(error, 'EINVAL', 'EPERM', 'EACCES', 'ENOTSUP')) return;
      // ext4 says so of one that is too long for it.
      if (!isErrno(error, 'ENOTSUP', 'E2BIG', 'ERANGE', 'ENOSPC')) throw error;
      throw cannotKeep(`the extended attribute ${text.slice(0, 40)} of ${shortPath(entry.path)}`, error);
    });
  }

  async #done(directory: Descriptor, record: Extract<TreeRecord, { type: 'done' }>): Promise<void> {
    const { queue } = this.#target;
    const entry = this.#entry;
    await this.#call(directory, async (file) => {
      // The rest of it is a hole.
      if (entry !== undefined && entry.atBytes < entry.sizeBytes) await resizeFile(queue, file, entry.sizeBytes);
      if (entry?.kind !== 'symlink') await changeMode(queue, file, record.mode);
      await changeTimes(queue, file, record);
    });
    if (entry === undefined) return await this.#levels.pop();
    this.#entry = undefined;
    this.#finishing.start(() => finish(entry));
    await this.#finishing.fewerThan(entriesAtOnce);
    if (entry.written === undefined) return;
    this.#batch.files.push(entry.written);
    if (this.#batch.files.length >= batchFiles) await this.#settleBehind();
  }

  /** The next batch comes meanwhile. */
  async #settleBehind(): Promise<void> {
    await this.#finishing.fewerThan(1);
    await this.#entry?.calls;
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
    const memory = new PieceMemory(comparesAtOnce, Number(pieceBytes));
    const compares = new InFlight();
    try {
      for (const written of open === undefined ? files : [...files, open]) {
        await compares.fewerThan(comparesAtOnce);
        compares.start(() => compare(queue, written, memory));
      }
      await compares.fewerThan(1);
    } finally {
      await compares.ended();
    }
  }
}

/** The name under which an entry waits for more of its names. */
function waitingName(link: number): TreeName {
  return treeName(Buffer.from(String(link)));
}

function cannotKeep(what: string, error: unknown): FailedPrecondition {
  return new FailedPrecondition(
    `The filesystem of the pool that receives the volume cannot keep ${what} (${errnoName(error)}).`,
  );
}

function untouched(): Pick<OpenEntry, 'atBytes' | 'calls' | 'written'> {
  return { atBytes: 0n, calls: Promise.resolve(), written: undefined };
}

/** A file with data stays open until it was compared. */
async function finish({ calls, file, written }: OpenEntry): Promise<void> {
  try {
    await calls;
  } finally {
    if (written === undefined) await file[Symbol.asyncDispose]();
  }
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
async function compare(queue: DiskQueue, { file, ranges }: Written, memory: PieceMemory): Promise<void> {
  if (ranges.length === 0) return;
  const flags = constants.O_RDONLY | constants.O_NOATIME;
  await dropCached(queue, file);
  const direct = await openPastCache(queue, file, flags);
  await using again = direct ?? (await openFile(queue, file, flags));
  for (const { digest, lengthBytes, offsetBytes } of ranges) {
    // Direct reads are of whole blocks.
    const length = direct !== undefined ? Number(roundUp(BigInt(lengthBytes), blockBytes)) : lengthBytes;
    const slot = await memory.take();
    const into = slot.memory.subarray(0, length);
    // One direct call reads all of it; the next one would not begin at a whole block, if the file ends in it.
    const found = await (direct !== undefined ? readInto : readFully)(queue, again, into, offsetBytes);
    const read = into.subarray(0, Math.min(found, lengthBytes));
    const isSame = (await dataDigest(read)).equals(digest);
    slot.free();
    if (isSame) continue;
    throw new DataLoss(
      `The file ${shortPath(file.path)} has other bytes at ${offsetBytes} than were written: the disk of the pool that receives the volume is sick. Nothing was moved.`,
    );
  }
}
