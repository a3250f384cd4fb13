import { createHash } from 'node:crypto';
import { constants } from 'node:fs';
import { type Descriptor, openFile } from '../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { errorIn } from '../../kernel/call/thread.ts';
import { type EntryStatus, entryStatusOf } from '../../kernel/file/path.ts';
import { leaveNames, nextName, openEntry, type TreeName, type WalkPlace, walkStart } from '../../kernel/file/tree.ts';
import { TreeLevels } from '../../kernel/file/tree-levels.ts';
import { dataRanges, type Piece, type PieceData, pieceBytes, wholePieces } from '../copy.ts';
import { PieceMemory } from '../piece-memory.ts';
import { ahead } from './ahead.ts';
import { dataDigest } from './digest.ts';
import { Links } from './links.ts';
import { OtherTree, type TreePlace } from './progress.ts';
import { encodeRecord, longestRecordBytes, recordHead, type TreeRecord } from './records.ts';
import { attributesIn, changedMeanwhile, readFlags, readSmall, readWhole, requireUnchanged, type Seen } from './see.ts';
import { type Bytes, bytesOf, inDirectory, type SeenReply, type SmallFiles, seenIn, smallFiles } from './small.ts';

export interface TreeSource {
  readonly queue: DiskQueue;
  /** Nothing may change it, or anything in it, until all has been read. */
  readonly root: Descriptor;
  /** An earlier try was cut short there. */
  readonly from?: TreePlace | undefined;
  readonly signal: AbortSignal;
}

/** The place of the walk in a directory. */
interface Place extends WalkPlace {
  readonly before: EntryStatus;
  /** The next ones of its names. */
  seen: Promise<SeenReply | undefined>[];
}

/** The number of pieces that are read before their turn. */
const piecesAhead = 4;
/** The number of pieces with data in memory: more than are read ahead and used at a time, so that reading always ends. */
const piecesAtOnce = 10;
/** The number of entries that are looked at a time. */
const looksAhead = 32;

/** The records and bytes after which there is a place from which a copy can go on. */
const placeRecords = 4096;
const placeBytes = 16 << 20;
/** The number of records that are passed between two signs of that. */
const passedAtOnce = 256;

/** Pieces of a tree end anywhere. */
export const treeEndBytes = 1n << 62n;

/**
 * The pieces of a tree (`records.ts`), in the order in which its directories have their entries. On the way to the place at which
 * an earlier try was cut short they are without data, and count the records that were passed: each of those is longer than a byte.
 * @throws FailedPrecondition if something is mounted in it, or it cannot move; Unavailable if it changes meanwhile;
 * OtherTree if it is another one before that place
 */
export function packTree(source: TreeSource): AsyncGenerator<Piece, void, void> {
  return ahead(pieces(source), piecesAhead);
}

async function* pieces(source: TreeSource): AsyncGenerator<Piece, void, void> {
  let [passed, atBytes] = [0n, source.from?.atBytes ?? 0n];
  for await (const part of new Packer(source).pieces()) {
    if ('passed' in part) {
      yield { offsetBytes: passed, lengthBytes: part.passed, data: undefined };
      passed += BigInt(part.passed);
      continue;
    }
    const lengthBytes = part.bytes.length;
    yield { offsetBytes: atBytes, lengthBytes, data: { ...part, digest: await dataDigest(part.bytes) } };
    atBytes += BigInt(lengthBytes);
  }
}

/** The bytes of a piece, or the number of records that the target has already: it hears that the walk goes on. */
type Part = (Pick<PieceData, 'free'> & { readonly bytes: Buffer<ArrayBuffer> }) | { readonly passed: number };

class Packer {
  readonly #source: TreeSource;
  readonly #memory = new PieceMemory(piecesAtOnce, Number(pieceBytes));
  readonly #links = new Links();
  #small: SmallFiles | undefined;
  /** The looks that go on. Never rejects. */
  #looking: Promise<unknown> = Promise.resolve();
  /**
   * The digest of all records until now, and of the states of their entries. Those of data are left out: where a file has data
   * differs from one look to the next (`dataRanges`), though nothing has changed it.
   */
  readonly #digest = createHash('sha256');
  /** The records of that digest since the last place between two entries: another walk has it at the same entry. */
  #recordsSincePlace = 0;
  #bytesSincePlace = 0;
  /** The walk is before the place from which on the target wants it. */
  #isPassing: boolean;
  /** The records until that place, and those of them that no piece has counted yet. */
  #passed = 0n;
  #uncounted = 0;
  #records: Buffer[] = [];
  #length = 0;

  constructor(source: TreeSource) {
    this.#source = source;
    this.#isPassing = source.from !== undefined;
  }

  async *pieces(): AsyncGenerator<Part, void, void> {
    try {
      yield* this.#walk();
    } finally {
      await this.#looking;
      await this.#small?.[Symbol.asyncDispose]();
    }
  }

  async *#walk(): AsyncGenerator<Part, void, void> {
    const { queue, root, signal } = this.#source;
    await using levels = new TreeLevels<Place>(queue);
    await levels.push(await openFile(queue, root, readFlags | constants.O_DIRECTORY), newPlace(entryStatusOf(root)));
    for (;;) {
      signal.throwIfAborted();
      const { top } = levels;
      if (top === undefined) break;
      const name = await nextName(this.#source.queue, top.directory, top.state);
      if (name === undefined) {
        yield* this.#attributes(top.directory, top.state.before);
        await levels.pop();
      } else yield* this.#entry(levels, top, name);
    }
    for (const names of this.#links.rest()) yield* this.#add({ type: 'names', ...names });
    yield* this.#add({ type: 'end' });
    if (this.#isPassing) throw otherTree();
    yield* this.#flush();
  }

  /** Looks at the entry whose name was taken last, and at some that come after it. */
  async #look(directory: Descriptor, place: Place): Promise<Seen> {
    if (place.seen.length <= looksAhead / 2) {
      const from = place.at - 1 + place.seen.length;
      const names = place.names.slice(from, from + looksAhead).map(({ bytes }) => bytesOf(bytes.subarray(0, -1)));
      const replies = this.#see(directory, names);
      for (let at = 0; at < names.length; at++) place.seen.push(replies.then((all) => all[at]));
      // They are awaited later, or not at all.
      for (const each of place.seen) each.catch(() => undefined);
      // Without their results, which would be kept until the end of the walk.
      this.#looking = Promise.allSettled([this.#looking, replies]).then(() => undefined);
    }
    const reply = await place.seen.shift();
    if (reply === undefined) throw new Error('an entry was not looked at');
    if ('seen' in reply) return seenIn(reply.seen);
    // The queue hears of a disk that fails.
    return await this.#source.queue.run(() => Promise.reject(errorIn(reply.error)));
  }

  async #see(directory: Descriptor, names: readonly Bytes[]): Promise<readonly SeenReply[]> {
    if (names.length === 0) return [];
    const { queue } = this.#source;
    this.#small ??= smallFiles();
    const small = this.#small;
    const isRead = !this.#isPassing;
    return await inDirectory(queue, directory, (where) => small.ask('see', { ...where, names, isRead }));
  }

  async *#entry(
    levels: TreeLevels<Place>,
    { directory: parent, state: place }: { readonly directory: Descriptor; readonly state: Place },
    treeName: TreeName,
  ): AsyncGenerator<Part, void, void> {
    const { queue } = this.#source;
    const name = treeName.bytes.subarray(0, -1);
    if (this.#recordsSincePlace >= placeRecords) yield* this.#placeBetween();
    const { attributes, data, isSmall, status, target } = await this.#look(parent, place);
    this.#note(status);
    if (status.kind === 'directory') {
      yield* this.#add({ type: 'directory', name });
      await using entry = await openEntry(queue, parent, treeName);
      const directory = await openFile(queue, entry, readFlags | constants.O_DIRECTORY);
      return await levels.push(directory, newPlace(status), (far) => {
        leaveNames(far);
        far.seen = [];
      });
    }
    const seen = this.#links.see(status);
    if (seen === undefined) throw changedMeanwhile(`${parent.path}/${treeName.text}`);
    const { complete, isFirst, link } = seen;
    if (!isFirst) {
      yield* this.#add({ type: 'link', link, name });
      if (complete !== undefined) yield* this.#add({ type: 'names', ...complete });
      return;
    }
    if (status.kind === 'file') {
      const { sizeBytes } = status;
      yield* this.#add({ type: 'file', link, sizeBytes, name });
      const fromBytes = this.#isPassing ? yield* this.#placeIn(sizeBytes) : 0n;
      if (fromBytes === 0n && isSmall && data !== undefined) yield* this.#content(data);
      else if (fromBytes !== undefined && sizeBytes > 0n) {
        await using entry = await openEntry(queue, parent, treeName);
        if (fromBytes === 0n && isSmall) yield* this.#content(await readSmall(queue, entry, status));
        else yield* this.#data(entry, status, fromBytes);
      }
    } else if (target !== undefined) yield* this.#add({ type: 'symlink', link, name, target });
    else yield* this.#add({ type: 'special', link, fileType: status.mode & constants.S_IFMT, ...status.nodeOf, name });
    if (attributes !== undefined) {
      for (const record of attributes) yield* this.#add(record);
      return;
    }
    await using entry = await openEntry(queue, parent, treeName);
    yield* this.#attributes(entry, status);
  }

  /** The copy of an entry that has changed meanwhile is of no use: no place lies behind it yet. */
  async *#attributes(entry: Descriptor, before: EntryStatus): AsyncGenerator<Part, void, void> {
    for await (const record of attributesIn(this.#source.queue, entry)) yield* this.#add(record);
    requireUnchanged(entry, before);
  }

  async *#data(entry: Descriptor, status: EntryStatus, fromBytes: bigint): AsyncGenerator<Part, void, void> {
    const { queue, signal } = this.#source;
    const { sizeBytes } = status;
    await using file = await openFile(queue, entry, readFlags);
    const ranges = dataRanges(queue, file, fromBytes, sizeBytes);
    let doneBytes = fromBytes;
    for await (const { lengthBytes, offsetBytes } of wholePieces({ ranges, endBytes: sizeBytes, fromBytes })) {
      signal.throwIfAborted();
      if (this.#bytesSincePlace >= placeBytes) yield* this.#place(doneBytes);
      yield* this.#add({ type: 'data', offsetBytes, lengthBytes: Number(lengthBytes) });
      const { free, memory } = await this.#memory.take();
      const bytes = memory.subarray(0, Number(lengthBytes));
      await readWhole(queue, file, bytes, offsetBytes);
      yield* this.#piece(bytes, free);
      doneBytes = offsetBytes + lengthBytes;
    }
    requireUnchanged(file, status);
  }

  /** Data, whose record has been added. */
  *#piece(bytes: Buffer<ArrayBuffer>, free = nothing): Generator<Part, void, void> {
    yield* this.#flush();
    this.#bytesSincePlace += bytes.length;
    yield { bytes, free };
  }

  *#add(record: TreeRecord): Generator<Part, void, void> {
    const bytes = encodeRecord(record);
    if (record.type !== 'data' && record.type !== 'place') {
      // A look at the tree, e.g. at the space that it takes, changes none of it.
      this.#digest.update(record.type === 'done' ? encodeRecord({ ...record, accessed: record.modified }) : bytes);
      this.#recordsSincePlace++;
    }
    if (this.#isPassing) yield* this.#pass();
    else yield* this.#push(bytes);
  }

  *#content(data: Buffer<ArrayBuffer>): Generator<Part, void, void> {
    yield* this.#push(recordHead('content', data.length), data);
  }

  *#push(...record: readonly Buffer[]): Generator<Part, void, void> {
    for (const bytes of record) {
      this.#bytesSincePlace += bytes.length;
      this.#records.push(bytes);
      this.#length += bytes.length;
    }
    // Another record fits into the piece, however long it is.
    if (this.#length >= Number(pieceBytes) - longestRecordBytes) yield* this.#flush();
  }

  /** An entry that was changed since is another one, also if its records are the same. */
  #note({ changed, inode, modified }: EntryStatus): void {
    const times = [changed, modified].map(({ nanoseconds, seconds }) => `${seconds}.${nanoseconds}`);
    this.#digest.update(`${inode} ${times.join(' ')}\n`);
  }

  /** @param fileBytes the end of the data that has come of a file; undefined: it is between two entries */
  #digestAt(fileBytes: bigint | undefined): Buffer {
    const digest = this.#digest.copy();
    if (fileBytes !== undefined) digest.update(`${fileBytes}`);
    return digest.digest();
  }

  *#place(fileBytes?: bigint): Generator<Part, void, void> {
    yield* this.#add({ type: 'place', digest: this.#digestAt(fileBytes) });
    this.#bytesSincePlace = 0;
    // Many records are short, and the other end takes silence for a lost connection.
    yield* this.#flush();
  }

  *#placeBetween(): Generator<Part, void, void> {
    if (!this.#isPassing) yield* this.#place();
    else if (this.#isAtPlace(undefined)) yield* this.#arrive();
    this.#recordsSincePlace = 0;
  }

  /** @returns the place in the file from which on the target wants it, if it is in this one */
  *#placeIn(sizeBytes: bigint): Generator<Part, bigint | undefined, void> {
    const { fileBytes } = this.#source.from ?? {};
    if (fileBytes === undefined || fileBytes >= sizeBytes || !this.#isAtPlace(fileBytes)) return undefined;
    yield* this.#arrive();
    return fileBytes;
  }

  #isAtPlace(fileBytes: bigint | undefined): boolean {
    const { from } = this.#source;
    return from?.fileBytes === fileBytes && from?.digest.equals(this.#digestAt(fileBytes)) === true;
  }

  *#arrive(): Generator<Part, void, void> {
    this.#isPassing = false;
    if (this.#uncounted > 0) yield { passed: this.#uncounted };
  }

  /** @throws OtherTree if the place is passed that the target has come to */
  *#pass(): Generator<Part, void, void> {
    if (++this.#passed > (this.#source.from?.atBytes ?? 0n)) throw otherTree();
    if (++this.#uncounted < passedAtOnce) return;
    yield { passed: this.#uncounted };
    this.#uncounted = 0;
  }

  *#flush(): Generator<Part, void, void> {
    if (this.#length === 0) return;
    const bytes = Buffer.concat(this.#records);
    this.#records = [];
    this.#length = 0;
    yield { bytes, free: nothing };
  }
}

function otherTree(): OtherTree {
  return new OtherTree('The volume is not as it was when its copy was cut short, which begins again.');
}

function newPlace(before: EntryStatus): Place {
  return { ...walkStart(), before, seen: [] };
}

function nothing(): void {}
