import { constants } from 'node:fs';
import { type Descriptor, openFile } from '../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { isErrno } from '../../kernel/call/errno.ts';
import {
  attributesOf,
  changeMode,
  changeOwner,
  changeTimes,
  linkIn,
  longestAttributes,
  makeDirectoryIn,
  makeSpecialIn,
  makeSymlinkIn,
  treeName,
} from '../../kernel/file/entry.ts';
import { removeAttribute, resizeFile, writeAt } from '../../kernel/file/file.ts';
import { syncFilesystem } from '../../kernel/file/filesystem.ts';
import { entryStatusOf } from '../../kernel/file/path.ts';
import { makeFileIn, nextName, openEntry, openSubdirectory, type TreeName, walkStart } from '../../kernel/file/tree.ts';
import { TreeLevels } from '../../kernel/file/tree-levels.ts';
import { removeTree } from '../../kernel/file/tree-removal.ts';
import { ResourceExhausted } from '../../volume/errors.ts';
import { roundUp } from '../../volume/size.ts';
import { blockBytes, type Pace, type Piece, type PieceData, pieceBytes, requireWholeBlocks } from '../copy.ts';
import { InFlight } from '../in-flight.ts';
import { PieceMemory } from '../piece-memory.ts';
import { compareFile, type Written } from './compare.ts';
import { dataDigest, recordsDigest } from './digest.ts';
import { keepAttribute, notKept } from './keep.ts';
import { OtherTree, type TreeProgress } from './progress.ts';
import {
  type DataRange,
  decodeRecords,
  isAttributeName,
  maxContentBytes,
  type TreeRecord,
  unreadable,
} from './records.ts';
import { moreThanItsSize, bytesOf as recordBytes } from './room.ts';
import { bytesOf, inDirectory, type SmallFile, type SmallFiles, smallFiles } from './small.ts';

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
  /** An earlier try was cut short there: the pieces before it have no data. */
  readonly from?: TreeProgress | undefined;
  readonly pace: Pace;
  readonly signal: AbortSignal;
  moved(bytes: bigint): void;
  /** The source is on its way to that place, and has passed this number of records. */
  passed(records: bigint): void;
  /** Notes how far it has come, durably. */
  noted(progress: TreeProgress): Promise<void>;
}

/** The bytes and files after which all is synced and compared. The files are open until then. */
const batchBytes = 64 << 20;
const batchFiles = 1024;
const inheritedAcls = ['system.posix_acl_default', 'system.posix_acl_access'];
/** The number of entries whose calls go on while the next ones come, and of files that are compared at a time. */
const entriesAtOnce = 8;
/** The number of small files that are made, or compared, by one job of another thread. */
const filesAtOnce = 32;
/** The number of those jobs at a time: one waits for the other. */
const jobsAtOnce = 2;
const comparesAtOnce = 4;

/** An entry that is no directory, until its `done`. */
interface OpenEntry {
  readonly name: Buffer;
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
  const fromBytes = work.from?.atBytes ?? 0n;
  for await (const { data, lengthBytes, offsetBytes } of work.pieces) {
    work.signal.throwIfAborted();
    const until = offsetBytes + BigInt(lengthBytes);
    if (data === undefined && until <= fromBytes) {
      work.passed(until);
      continue;
    }
    if (data === undefined || offsetBytes < fromBytes) throw unreadable('a piece of it is missing, or not asked for');
    await unpacker.take(data);
    work.moved(BigInt(lengthBytes));
    await work.pace.took(BigInt(lengthBytes), work.signal);
  }
  await unpacker.end();
}

/** A small file, of which not all has come. */
type ComingFile = Pick<SmallFile, 'name' | 'sizeBytes'> & {
  content: SmallFile['content'];
  owner: SmallFile['owner'];
  readonly attributes: SmallFile['attributes'][number][];
  /** The bytes of its content and attributes. */
  bytes: number;
};

/** A directory whose entries come. */
interface Level {
  readonly name: Buffer;
  entries: number;
  /** An earlier try has made entries in it, maybe more than are counted: those come again. */
  readonly isResumed: boolean;
}

class Unpacker implements AsyncDisposable {
  readonly #target: UnpackWork;
  readonly #levels: TreeLevels<Level>;
  /** The bytes of all that has come. */
  #atBytes = 0n;
  #entry: OpenEntry | undefined;
  /** It comes, and is made at once when all of it has. */
  #file: ComingFile | undefined;
  /** Small files of the innermost directory that have come. */
  #files: SmallFile[] = [];
  #filesBytes = 0;
  /** The bytes of attributes that wait for the calls before them, at most. */
  #waitingBytes = 0;
  /** Bytes of the names of attributes of the file that comes. */
  #attributeNamesBytes = 0;
  #small: SmallFiles | undefined;
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
    const { from, queue, root } = this.#target;
    // All entries would inherit those of the directory around it.
    for (const acl of inheritedAcls) await removeAttribute(queue, root, acl);
    const top = await openFile(queue, root, constants.O_RDONLY | constants.O_DIRECTORY);
    if (from === undefined) return await this.#levels.push(top, newLevel(Buffer.alloc(0)));
    await this.#resume(top, from);
  }

  /** All that came behind that place may be there, or not, or a part of it. */
  async #resume(root: Descriptor, { atBytes, file, levels, takenBytes }: TreeProgress): Promise<void> {
    const { queue } = this.#target;
    this.#atBytes = atBytes;
    this.#takenBytes = takenBytes;
    for (const { entries, name } of levels) {
      const { top } = this.#levels;
      const directory = top === undefined ? root : await this.#open(top.directory, name, openSubdirectory);
      await this.#levels.push(directory, { name, entries, isResumed: true });
      await removeAttributes(queue, directory);
    }
    const { top } = this.#levels;
    if (file === undefined || top === undefined) return;
    await using entry = await this.#open(top.directory, file.name, openEntry);
    const { kind, sizeBytes } = entryStatusOf(entry);
    // A disk that has lost synced bytes may have less of it.
    if (kind !== 'file' || sizeBytes < file.atBytes) throw otherCopy();
    const opened = await openFile(queue, entry, constants.O_RDWR);
    this.#entry = { ...file, file: opened, kind: 'file', ...untouched(), atBytes: file.atBytes };
    await removeAttributes(queue, opened);
    await resizeFile(queue, opened, file.atBytes);
  }

  async #open(parent: Descriptor, name: Buffer, open: typeof openEntry): Promise<Descriptor> {
    return await open(this.#target.queue, parent, treeName(name)).catch((error) => {
      throw isErrno(error, 'ENOENT', 'ENOTDIR', 'ELOOP') ? otherCopy() : error;
    });
  }

  async take(piece: PieceData): Promise<void> {
    const announced = this.#announced;
    if (announced !== undefined) {
      this.#announced = undefined;
      return await this.#write(announced, piece);
    }
    if (!(await dataDigest(piece.bytes)).equals(piece.digest)) throw unreadable('its bytes have changed on their way');
    for (const { lengthBytes, record } of decodeRecords(piece.bytes)) {
      if (this.#announced !== undefined || this.#isWhole) throw unreadable('it goes on behind its end');
      this.#atBytes += BigInt(lengthBytes);
      this.#takeRoom(BigInt(recordBytes(record)));
      await this.#apply(record);
    }
    piece.free();
  }

  async end(): Promise<void> {
    if (!this.#isWhole) throw unreadable('it is not whole');
    await this.#settleBehind(undefined);
    await this.#settling;
    await syncFilesystem(this.#target.queue, this.#target.root);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#entry?.calls.catch(() => undefined);
    await this.#finishing.ended();
    await this.#settling.catch(() => undefined);
    await this.#small?.[Symbol.asyncDispose]();
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
    if (this.#file !== undefined) {
      if (await this.#comes(this.#file, top.directory, record)) return;
    }
    switch (record.type) {
      case 'owner':
        return await this.#call(top.directory, (file) => changeOwner(this.#target.queue, file, record));
      case 'attribute': {
        // The memory of the piece is used again.
        const [name, value] = [Buffer.from(record.name), Buffer.from(record.value)];
        await this.#call(top.directory, (file) => keepAttribute(this.#target.queue, file, { name, value }));
        this.#waitingBytes += value.length;
        if (this.#waitingBytes < Number(pieceBytes)) return;
        await this.#entry?.calls;
        this.#waitingBytes = 0;
        return;
      }
      case 'done':
        return await this.#done(top.directory, record);
      case 'data':
        return this.#announce(record);
      case 'content':
        return await this.#content(record.bytes);
      case 'place':
        return await this.#settleBehind(record.digest);
    }
    if (this.#entry !== undefined) throw unreadable('an entry of it has no end');
    if (record.type === 'names') return await this.#requireNames(record);
    await this.#make(top.directory, record).catch((error) => {
      throw notKept(`${top.directory.path}/${treeName(record.name).text}`, error);
    });
  }

  async #make(
    parent: Descriptor,
    record: Extract<TreeRecord, { type: 'directory' | 'file' | 'symlink' | 'special' | 'link' }>,
  ): Promise<void> {
    const { links, queue } = this.#target;
    const name = treeName(record.name);
    if (record.type === 'file' && record.link === 0 && this.#levels.top?.state.isResumed === false) {
      if (record.sizeBytes <= BigInt(maxContentBytes)) {
        this.#levels.top.state.entries++;
        const { name, sizeBytes } = record;
        this.#file = { name: bytesOf(name), sizeBytes, content: undefined, owner: undefined, attributes: [], bytes: 0 };
        this.#attributeNamesBytes = 0;
        return;
      }
    }
    await this.#makeRoom(parent, name);
    if (record.type === 'directory') {
      await this.#makeFiles(parent);
      await makeDirectoryIn(queue, parent, name);
      return await this.#levels.push(await openSubdirectory(queue, parent, name), newLevel(Buffer.from(record.name)));
    }
    const waiting = [links, waitingName(record.link)] as const;
    if (record.type === 'link') {
      return await linkIn(queue, waiting, [parent, name]).catch((error) => {
        throw isErrno(error, 'ENOENT') ? this.#missing('a name in it is of an entry that has not come') : error;
      });
    }
    if (record.type === 'file') {
      const file = await makeFileIn(queue, parent, name);
      const { sizeBytes } = record;
      this.#entry = { name: Buffer.from(record.name), file, kind: 'file', sizeBytes, ...untouched() };
    } else {
      if (record.type === 'symlink') await makeSymlinkIn(queue, parent, name, record.target);
      else {
        const { fileType: type, major, minor } = record;
        await makeSpecialIn(queue, parent, name, { type, nodeOf: { major, minor } });
      }
      const file = await openEntry(queue, parent, name);
      this.#entry = { name: Buffer.from(record.name), file, kind: record.type, sizeBytes: 0n, ...untouched() };
    }
    if (record.link === 0) return;
    if (this.#target.from !== undefined) await removeTree(queue, links, waiting[1], this.#target.signal);
    await linkIn(queue, [parent, name], waiting);
  }

  /** @returns false: it comes as other files do, as its data is elsewhere */
  async #comes(file: ComingFile, parent: Descriptor, record: TreeRecord): Promise<boolean> {
    switch (record.type) {
      case 'owner':
        file.owner = record;
        return true;
      case 'attribute':
        // Each name ends with a NUL in the list that the other end has read.
        this.#attributeNamesBytes += record.name.length + 1;
        if (this.#attributeNamesBytes > longestAttributes)
          throw unreadable('it has more attributes than a file can have');
        file.bytes += record.value.length;
        file.attributes.push({ name: bytesOf(record.name), value: bytesOf(record.value) });
        if (file.bytes >= Number(pieceBytes)) await this.#makeOpen(file, parent);
        return true;
      case 'content':
        if (file.content !== undefined || BigInt(record.bytes.length) !== file.sizeBytes) {
          throw unreadable('its data is of another length');
        }
        this.#takeRoom(roundUp(file.sizeBytes, blockBytes));
        file.content = bytesOf(record.bytes);
        file.bytes += record.bytes.length;
        return true;
      case 'done': {
        this.#file = undefined;
        const { accessed, mode, modified } = record;
        const { bytes: _, ...whole } = file;
        this.#files.push({ ...whole, done: { accessed, mode, modified } });
        this.#filesBytes += file.bytes;
        if (this.#files.length >= filesAtOnce || this.#filesBytes >= Number(pieceBytes)) await this.#makeFiles(parent);
        return true;
      }
      default:
        await this.#makeOpen(file, parent);
        return false;
    }
  }

  /** Makes a file that began as a small one, and is open until it has all. */
  async #makeOpen({ attributes, content, name, owner, sizeBytes }: ComingFile, parent: Descriptor): Promise<void> {
    const { queue } = this.#target;
    this.#file = undefined;
    const file = await makeFileIn(queue, parent, treeName(Buffer.from(name))).catch((error) => {
      throw notKept(`${parent.path}/${Buffer.from(name).toString('utf8')}`, error);
    });
    const entry: OpenEntry = { name: Buffer.from(name), file, kind: 'file', sizeBytes, ...untouched() };
    this.#entry = entry;
    if (content !== undefined) this.#writeContent(entry, Buffer.from(content));
    if (owner !== undefined) await this.#call(parent, (made) => changeOwner(queue, made, owner));
    for (const each of attributes) {
      const attribute = { name: Buffer.from(each.name), value: Buffer.from(each.value) };
      await this.#call(parent, (made) => keepAttribute(queue, made, attribute));
    }
  }

  /** Makes the small files of a directory that have come. */
  async #makeFiles(directory: Descriptor): Promise<void> {
    if (this.#files.length === 0) return;
    const { queue } = this.#target;
    const [batch, files] = [this.#batch, this.#files];
    this.#files = [];
    this.#filesBytes = 0;
    this.#small ??= smallFiles();
    const small = this.#small;
    for (const { content } of files) batch.bytes += content?.length ?? 0;
    this.#finishing.start(async () => {
      const made = await inDirectory(queue, directory, (where) => small.ask('make', { ...where, files }));
      batch.small.push(...made);
    });
    await this.#finishing.fewerThan(jobsAtOnce);
    if (batch === this.#batch && batch.isFull) await this.#settleBehind(undefined);
  }

  /** An earlier try may have made an entry of this name: that has not been compared. */
  async #makeRoom(parent: Descriptor, name: TreeName): Promise<void> {
    const level = this.#levels.top?.state;
    if (level === undefined) return;
    level.entries++;
    if (level.isResumed) await removeTree(this.#target.queue, parent, name, this.#target.signal);
  }

  /** @throws OtherTree if an entry is left of an earlier try that has not come again */
  async #requireEntries(directory: Descriptor, { entries }: Level): Promise<void> {
    const place = walkStart();
    let found = 0;
    while ((await nextName(this.#target.queue, directory, place)) !== undefined) found++;
    if (found !== entries) throw otherCopy();
  }

  /** An entry is one here, too, with as many names as in the source. */
  async #requireNames({ link, names }: Extract<TreeRecord, { type: 'names' }>): Promise<void> {
    const { links, queue } = this.#target;
    await using entry = await openEntry(queue, links, waitingName(link)).catch((error) => {
      throw isErrno(error, 'ENOENT') ? this.#missing('it counts the names of an entry that has not come') : error;
    });
    // One of them is for those that have not come yet.
    const found = entryStatusOf(entry).links - 1;
    if (found !== names) throw unreadable(`an entry of it has ${names} names, and ${found} of them have come`);
  }

  /** An entry that waits for more names may have been lost since an earlier try has made it. */
  #missing(why: string): Error {
    return this.#target.from === undefined ? unreadable(why) : otherCopy();
  }

  /** Makes a call for the entry that came last, behind its other calls; or for the directory. */
  async #call(directory: Descriptor, call: (file: Descriptor) => Promise<void>): Promise<void> {
    const entry = this.#entry;
    if (entry === undefined) {
      // A change of its entries would change it, too.
      await this.#makeFiles(directory);
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
    // One is written while the next one comes.
    await entry.calls;
    this.#takeRoom(roundUp(BigInt(lengthBytes), blockBytes));
    const range = { lengthBytes, offsetBytes, digest };
    this.#writeRange(entry, range, () => writeAt(queue, entry.file, bytes, offsetBytes).then(() => piece.free()));
    this.#atBytes += BigInt(lengthBytes);
    if (this.#batch.isFull) await this.#settleBehind(undefined);
  }

  /** All data of the file that came last. */
  async #content(sent: Buffer): Promise<void> {
    const entry = this.#entry;
    const isIts = entry?.kind === 'file' && entry.atBytes === 0n && entry.sizeBytes === BigInt(sent.length);
    if (!isIts) throw unreadable('its data is of another length');
    this.#takeRoom(roundUp(entry.sizeBytes, blockBytes));
    // The memory of the piece is used again.
    this.#writeContent(entry, Buffer.from(sent));
  }

  #writeContent(entry: OpenEntry, bytes: Buffer<ArrayBuffer>): void {
    entry.atBytes = entry.sizeBytes;
    const range = { offsetBytes: 0n, lengthBytes: bytes.length, digest: recordsDigest(bytes) };
    this.#writeRange(entry, range, () => writeAt(this.#target.queue, entry.file, bytes, 0n));
  }

  #writeRange(entry: OpenEntry, range: Written['ranges'][number], write: () => Promise<void>): void {
    entry.calls = entry.calls.then(write);
    // It is awaited later.
    entry.calls.catch(() => undefined);
    entry.written ??= { file: entry.file, ranges: [] };
    entry.written.ranges.push(range);
    this.#batch.bytes += range.lengthBytes;
  }

  async #done(directory: Descriptor, record: Extract<TreeRecord, { type: 'done' }>): Promise<void> {
    const { queue } = this.#target;
    const entry = this.#entry;
    await this.#call(directory, async (file) => {
      // The rest of it is a hole.
      if (entry !== undefined && entry.atBytes < entry.sizeBytes) await resizeFile(queue, file, entry.sizeBytes);
      if (entry?.kind !== 'symlink') await changeMode(queue, file, record.mode);
      const level = entry === undefined ? this.#levels.top?.state : undefined;
      // Before the times: to read a directory may change one.
      if (level?.isResumed === true) await this.#requireEntries(directory, level);
      await changeTimes(queue, file, record);
    });
    if (entry === undefined) return await this.#levels.pop();
    this.#entry = undefined;
    this.#finishing.start(() => finish(entry));
    await this.#finishing.fewerThan(entriesAtOnce);
    if (entry.written === undefined) return;
    this.#batch.files.push(entry.written);
    if (this.#batch.isFull) await this.#settleBehind(undefined);
  }

  #progressAt(digest: Buffer): TreeProgress {
    const { name, atBytes, sizeBytes } = this.#entry ?? {};
    const file = name && atBytes !== undefined && sizeBytes !== undefined ? { name, atBytes, sizeBytes } : undefined;
    const levels = this.#levels.states.map(({ entries, name }) => ({ entries, name }));
    return { atBytes: this.#atBytes, digest, takenBytes: this.#takenBytes, levels, file };
  }

  /**
   * The next batch comes meanwhile.
   * @param digest of the place from which a copy can go on; undefined: this is none
   */
  async #settleBehind(digest: Buffer | undefined): Promise<void> {
    const { top } = this.#levels;
    if (top !== undefined) await this.#makeFiles(top.directory);
    await this.#finishing.fewerThan(1);
    await this.#entry?.calls;
    const batch = this.#batch;
    const open = this.#entry?.written;
    const progress = digest && this.#progressAt(Buffer.from(digest));
    this.#batch = new Batch();
    if (open !== undefined) batch.open = { file: open.file, ranges: open.ranges.splice(0) };
    const before = this.#settling;
    this.#settling = (async () => {
      await using settled = batch;
      await before;
      await this.#settle(settled);
      if (progress !== undefined) await this.#target.noted(progress);
    })();
    // It is awaited later.
    this.#settling.catch(() => undefined);
    // No more than two batches are in memory.
    await before;
  }

  async #settle({ files, open, small }: Batch): Promise<void> {
    const { queue, root } = this.#target;
    await syncFilesystem(queue, root);
    for (const numbers of inParts(small, filesAtOnce)) {
      await queue.run(async () => this.#small?.ask('compare', { numbers }));
    }
    const memory = new PieceMemory(comparesAtOnce, Number(pieceBytes));
    const compares = new InFlight();
    try {
      for (const written of open === undefined ? files : [...files, open]) {
        await compares.fewerThan(comparesAtOnce);
        compares.start(() => compareFile(queue, written, memory));
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

function* inParts<T>(all: readonly T[], length: number): Generator<readonly T[], void, void> {
  for (let at = 0; at < all.length; at += length) yield all.slice(at, at + length);
}

function newLevel(name: Buffer): Level {
  return { name, entries: 0, isResumed: false };
}

/** An entry has those that come, and no others; an ACL would pass to new entries. */
async function removeAttributes(queue: DiskQueue, file: Descriptor): Promise<void> {
  for (const name of await attributesOf(queue, file)) {
    if (!isAttributeName(name)) continue;
    await removeAttribute(queue, file, name).catch((error: unknown) => {
      // A label of SELinux is never removed, and is written again.
      if (!isErrno(error, 'EPERM', 'EACCES')) throw error;
    });
  }
}

function otherCopy(): OtherTree {
  return new OtherTree('The copy of the volume is not as it was noted when it was cut short: it begins again.');
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
  /** The numbers of files that another thread has made. */
  readonly small: number[] = [];
  /** The part of the file that still comes. */
  open: Written | undefined;

  get isFull(): boolean {
    return this.bytes >= batchBytes || this.files.length + this.small.length >= batchFiles;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { file } of this.files.splice(0)) await file[Symbol.asyncDispose]();
  }
}
