import { createHash } from 'node:crypto';
import { constants } from 'node:fs';
import { type Descriptor, openFile } from '../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { isErrno } from '../../kernel/call/errno.ts';
import { attributesOf, readAttribute, targetOf } from '../../kernel/file/entry.ts';
import { readFully } from '../../kernel/file/file.ts';
import { entryStatusOf } from '../../kernel/file/path.ts';
import { namesAfter, openEntry, type PlacedName, type TreeName } from '../../kernel/file/tree.ts';
import { TreeLevels } from '../../kernel/file/tree-levels.ts';
import { FailedPrecondition } from '../../volume/errors.ts';
import { shortPath } from '../../volume/short-path.ts';
import { smaller } from '../../volume/size.ts';
import { dataRanges, type Piece, type PieceData, pieceBytes } from '../copy.ts';
import { PieceMemory } from '../piece-memory.ts';
import { Links } from './links.ts';
import { encodeRecord, isAttributeName, longestRecordBytes, type TreeRecord } from './records.ts';

export interface TreeSource {
  readonly queue: DiskQueue;
  /** Nothing changes it, or anything in it, until all has been read. */
  readonly root: Descriptor;
  readonly signal: AbortSignal;
}

/** The place of the walk in a directory. */
interface Place {
  names: readonly PlacedName[];
  at: number;
  /** The position behind the last name that was taken. */
  after: bigint;
}

/** The number of pieces with data that are on their way to the target. */
const piecesAtOnce = 6;

/** Reading changes no time of the source. */
const readFlags = constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOATIME;

/** Pieces of a tree end anywhere. */
export const treeEndBytes = 1n << 62n;

/**
 * The pieces of a tree (`records.ts`), in the order in which its directories have their entries.
 * @throws FailedPrecondition if something is mounted in it, or it cannot move
 */
export async function* packTree(source: TreeSource): AsyncGenerator<Piece, void, void> {
  let at = 0n;
  for await (const { bytes, free } of new Packer(source).pieces()) {
    const digest = createHash('sha256').update(bytes).digest();
    yield { offsetBytes: at, lengthBytes: bytes.length, data: { bytes, digest, free } };
    at += BigInt(bytes.length);
  }
}

type Part = Pick<PieceData, 'bytes' | 'free'>;

class Packer {
  readonly #source: TreeSource;
  readonly #memory = new PieceMemory(piecesAtOnce, Number(pieceBytes));
  readonly #links = new Links();
  #records: Buffer[] = [];
  #length = 0;

  constructor(source: TreeSource) {
    this.#source = source;
  }

  async *pieces(): AsyncGenerator<Part, void, void> {
    const { queue, root, signal } = this.#source;
    await using levels = new TreeLevels<Place>(queue);
    await levels.push(await openFile(queue, root, readFlags | constants.O_DIRECTORY), newPlace());
    for (;;) {
      signal.throwIfAborted();
      const { top } = levels;
      if (top === undefined) break;
      const name = await this.#nextName(top.directory, top.state);
      if (name === undefined) {
        yield* this.#attributes(top.directory);
        await levels.pop();
      } else yield* this.#entry(levels, top.directory, name);
    }
    yield* this.#add({ type: 'end' });
    yield* this.#flush();
  }

  async #nextName(directory: Descriptor, place: Place): Promise<TreeName | undefined> {
    if (place.at === place.names.length) {
      place.names = await namesAfter(this.#source.queue, directory, place.after);
      place.at = 0;
    }
    const name = place.names[place.at++];
    if (name !== undefined) place.after = name.next;
    return name;
  }

  async *#entry(levels: TreeLevels<Place>, parent: Descriptor, treeName: TreeName): AsyncGenerator<Part, void, void> {
    const { queue } = this.#source;
    const name = treeName.bytes.subarray(0, -1);
    await using entry = await openEntry(queue, parent, treeName).catch((error) => {
      throw isErrno(error, 'EXDEV') ? mountedInside(parent, treeName) : error;
    });
    const status = entryStatusOf(entry);
    if (status.kind === 'directory') {
      yield* this.#add({ type: 'directory', name });
      const directory = await openFile(queue, entry, readFlags | constants.O_DIRECTORY);
      // The names that are left are read again on the way up.
      return await levels.push(directory, newPlace(), (place) => Object.assign(place, { names: [], at: 0 }));
    }
    const { isFirst, link } = this.#links.see(status);
    if (!isFirst) return yield* this.#add({ type: 'link', link, name });
    switch (status.kind) {
      case 'file': {
        await using file = await openFile(queue, entry, readFlags);
        yield* this.#add({ type: 'file', link, sizeBytes: status.sizeBytes, name });
        yield* this.#data(file, status.sizeBytes);
        break;
      }
      case 'symlink':
        yield* this.#add({ type: 'symlink', link, name, target: await targetOf(queue, entry) });
        break;
      default:
        yield* this.#add({ type: 'special', link, fileType: status.mode & constants.S_IFMT, ...status.nodeOf, name });
    }
    yield* this.#attributes(entry);
  }

  async *#data(file: Descriptor, sizeBytes: bigint): AsyncGenerator<Part, void, void> {
    const { queue, signal } = this.#source;
    for await (const range of dataRanges(queue, file, 0n, sizeBytes)) {
      const until = smaller(range.offsetBytes + range.lengthBytes, sizeBytes);
      for (let offsetBytes = range.offsetBytes; offsetBytes < until; ) {
        signal.throwIfAborted();
        const lengthBytes = Number(smaller(pieceBytes, until - offsetBytes));
        const { free, memory } = await this.#memory.take();
        const bytes = memory.subarray(0, lengthBytes);
        const length = await readFully(queue, file, bytes, offsetBytes);
        if (length < lengthBytes) throw new RangeError(`${file.path} ended at ${offsetBytes + BigInt(length)}`);
        yield* this.#add({ type: 'data', offsetBytes, lengthBytes });
        yield* this.#flush();
        yield { bytes, free };
        offsetBytes += BigInt(lengthBytes);
      }
    }
  }

  async *#attributes(entry: Descriptor): AsyncGenerator<Part, void, void> {
    const { queue } = this.#source;
    const { accessed, groupId, mode, modified, userId } = entryStatusOf(entry);
    yield* this.#add({ type: 'owner', userId, groupId });
    for (const name of await attributesOf(queue, entry)) {
      if (!isAttributeName(name)) continue;
      yield* this.#add({ type: 'attribute', name, value: await readAttribute(queue, entry, name) });
    }
    yield* this.#add({ type: 'done', mode: mode & ~constants.S_IFMT, accessed, modified });
  }

  *#add(record: TreeRecord): Generator<Part, void, void> {
    const bytes = encodeRecord(record);
    this.#records.push(bytes);
    this.#length += bytes.length;
    // Another record fits into the piece, however long it is.
    if (this.#length >= longestRecordBytes) yield* this.#flush();
  }

  *#flush(): Generator<Part, void, void> {
    if (this.#length === 0) return;
    const bytes = Buffer.concat(this.#records);
    this.#records = [];
    this.#length = 0;
    yield { bytes, free: () => undefined };
  }
}

function newPlace(): Place {
  return { names: [], at: 0, after: 0n };
}

function mountedInside(parent: Descriptor, { text }: TreeName): FailedPrecondition {
  return new FailedPrecondition(
    `The volume cannot move: something is mounted at ${shortPath(`${parent.path}/${text}`)}. Unmount it first.`,
  );
}
