import { webcrypto } from 'node:crypto';
import { constants } from 'node:fs';
import type { Descriptor } from '../kernel/call/descriptor.ts';
import type { DiskQueue } from '../kernel/call/disk-queue.ts';
import { isErrno } from '../kernel/call/errno.ts';
import { openPastCache } from '../kernel/file/direct.ts';
import { dropCached, readExactly, syncFile, writeAt } from '../kernel/file/file.ts';
import { type ByteRange, nextData } from '../kernel/file/sparse.ts';
import type { IncomingBytes } from '../pool/moves.ts';
import { DataLoss } from '../volume/errors.ts';
import { roundUp, smaller } from '../volume/size.ts';
import { Alike } from './alike.ts';
import { InFlight } from './in-flight.ts';
import { PieceMemory, type Slot } from './piece-memory.ts';

/** The pieces that are read, written and compared. */
export const pieceBytes = 1n << 20n;
/** Sectors and blocks of all disks are of this size, or smaller. */
export const blockBytes = 4096n;
/** The number of bytes after which the copy is synced, compared and noted. */
const batchBytes = 64n << 20n;
/** The number of pieces that are read ahead of the one that is being written. */
const readAhead = 3;
/** The number of pieces that are written at a time, and of those that are compared. */
const atOnce = 2;
const zeros = Buffer.alloc(Number(pieceBytes));

/** A piece of a source. It begins and ends at whole blocks, and lies within `pieceBytes` of the source. */
export interface Piece {
  readonly offsetBytes: bigint;
  readonly lengthBytes: number;
  /** undefined: zeros. */
  readonly data: PieceData | undefined;
}

export interface PieceData {
  /** In aligned memory (`alignedMemory`). */
  readonly bytes: Buffer<ArrayBuffer>;
  readonly digest: Buffer;
  /** The bytes are needed no more (`Slot.free`). */
  free(): void;
}

/** A source, and the part of it that is read. */
export interface PieceWork {
  readonly from: Descriptor;
  readonly fromQueue: DiskQueue;
  /** In order, never touching; from the offset on at which an earlier try has stopped. */
  readonly ranges: AsyncIterable<ByteRange>;
  /** Where the source ends. */
  readonly endBytes: bigint;
  /** An earlier try was cut short there. */
  readonly fromBytes: bigint;
}

export interface CopyWork {
  readonly to: Pick<IncomingBytes, 'data' | 'zero'>;
  readonly toQueue: DiskQueue;
  /** In order, never touching; from the offset on at which an earlier try has stopped. */
  readonly pieces: AsyncIterable<Piece>;
  /** Where the source ends. */
  readonly endBytes: bigint;
  /** Where the target ends, which may be larger. */
  readonly targetBytes: bigint;
  /**
   * The content of the target outside of the ranges. zeros: it reads as zeros, and zeros need not be written. anything:
   * it is made zeros outside of the ranges. earlier: it is right there. alike: it is nearly right, everywhere, and only what
   * differs is written.
   */
  readonly outside: 'zeros' | 'anything' | 'earlier' | 'alike';
  /** An earlier try was cut short there. */
  readonly fromBytes: bigint;
  readonly pace: Pace;
  readonly signal: AbortSignal;
  /** Everything before the offset is durable, and was compared. */
  noted(offsetBytes: bigint): Promise<void>;
  moved(bytes: bigint): void;
  /** A part of the target was written. */
  wrote?(range: ByteRange): void;
}

/** Keeps a copy below a number of bytes a second. */
export interface Pace {
  took(bytes: bigint, signal: AbortSignal): Promise<void>;
}

interface Written {
  readonly offsetBytes: bigint;
  readonly length: number;
  readonly digest: Buffer;
}

/**
 * Copies ranges of one volume into another. Zeros stay holes. Each piece is read back from the disk after it was synced,
 * and its digest compared with that of the bytes that were read from the source.
 */
export async function copyRanges(work: CopyWork): Promise<void> {
  const { endBytes, outside, pace, signal, targetBytes, to, toQueue } = work;
  await using direct = await openPastCache(toQueue, to.data, constants.O_RDWR | constants.O_NONBLOCK);
  const newMemory = (slots: number) => new PieceMemory(slots, Number(pieceBytes));
  const [file, memory] = [direct ?? to.data, newMemory(atOnce)];
  const dataOf = (fromBytes: bigint, untilBytes: bigint) =>
    wholePieces({ ranges: dataRanges(toQueue, to.data, fromBytes, untilBytes), fromBytes, endBytes: untilBytes });
  // Zeros are made beside the writes.
  const alike =
    outside === 'alike'
      ? new Alike({
          ...{ queue: toQueue, to, file, memory: newMemory(atOnce + 1), data: dataOf },
          wrote: (range) => work.wrote?.(range),
        })
      : undefined;
  const target: Target = { ...work, file, memory, alike };
  const writes = new InFlight();
  let written: Written[] = [];
  let batched = 0n;
  let at = work.fromBytes;
  let settling: Promise<void> = Promise.resolve();
  // The next batch comes meanwhile.
  const settleBehind = async (offsetBytes: bigint) => {
    await writes.fewerThan(1);
    await settling;
    const batch = written;
    written = [];
    batched = 0n;
    settling = settleBatch(target, batch, offsetBytes);
    // It is awaited later.
    settling.catch(() => undefined);
  };
  const settle = async (offsetBytes: bigint) => {
    await settleBehind(offsetBytes);
    await settling;
  };
  const zero = async (fromBytes: bigint, toBytes: bigint) => {
    if (alike !== undefined) return alike.zero(fromBytes, toBytes, signal);
    for (let offsetBytes = fromBytes; offsetBytes < toBytes; offsetBytes += batchBytes) {
      signal.throwIfAborted();
      await to.zero({ offsetBytes, lengthBytes: smaller(batchBytes, toBytes - offsetBytes) });
    }
  };
  const settleRest = async () => {
    if (batched > 0n && !signal.aborted) await settle(at);
    await settling;
  };
  try {
    for await (const piece of settledAtEnd(work.pieces, settleRest)) {
      const { data, lengthBytes, offsetBytes } = piece;
      signal.throwIfAborted();
      requireWholeBlocks(piece, endBytes);
      if (outside === 'anything' || outside === 'alike') await zero(at, offsetBytes);
      const length = BigInt(lengthBytes);
      if (data !== undefined) {
        await writes.fewerThan(atOnce);
        writes.start(() => write(target, data, offsetBytes));
        written.push({ offsetBytes, length: lengthBytes, digest: data.digest });
      } else if (outside !== 'zeros') {
        await zero(offsetBytes, offsetBytes + length);
      }
      at = offsetBytes + length;
      batched += length;
      work.moved(length);
      if (batched >= batchBytes) await settleBehind(at);
      await pace.took(length, signal);
    }
    if (outside === 'anything' || outside === 'alike') await zero(at, targetBytes);
    await settle(endBytes);
  } finally {
    // The caller closes the file that they use.
    await writes.ended();
    await settling.catch(() => undefined);
  }
}

/**
 * Each piece takes some memory until its batch is compared: another node that sent single bytes would take all of it.
 * @throws DataLoss
 */
export function requireWholeBlocks(
  { lengthBytes, offsetBytes }: Pick<Piece, 'lengthBytes' | 'offsetBytes'>,
  endBytes: bigint,
): void {
  const until = offsetBytes + BigInt(lengthBytes);
  if (offsetBytes % blockBytes === 0n && (until % blockBytes === 0n || until === endBytes)) return;
  throw new DataLoss(
    `The ${lengthBytes} bytes that were sent for ${offsetBytes} are no whole blocks. Nothing was moved.`,
  );
}

interface Target extends CopyWork {
  readonly file: Descriptor;
  /** For the bytes that are read back. */
  readonly memory: PieceMemory;
  readonly alike: Alike | undefined;
}

async function write(target: Target, data: PieceData, offsetBytes: bigint): Promise<void> {
  const { alike, file, to, toQueue } = target;
  const { bytes } = data;
  if (alike !== undefined) {
    await alike.write(bytes, offsetBytes);
    data.free();
    return;
  }
  const isWhole = bytes.length % Number(blockBytes) === 0 && offsetBytes % blockBytes === 0n;
  await writeAt(toQueue, isWhole ? file : to.data, bytes, offsetBytes);
  target.wrote?.({ offsetBytes, lengthBytes: BigInt(bytes.length) });
  data.free();
}

async function settleBatch(target: Target, batch: readonly Written[], offsetBytes: bigint): Promise<void> {
  await syncFile(target.toQueue, target.to.data);
  await dropCached(target.toQueue, target.to.data);
  await compare(target, batch);
  await target.noted(offsetBytes);
}

/** A source that is cut off again and again still gets further: the pieces that have come until then count. */
async function* settledAtEnd(
  pieces: AsyncIterable<Piece>,
  settle: () => Promise<void>,
): AsyncGenerator<Piece, void, void> {
  try {
    yield* pieces;
  } catch (error) {
    await settle();
    throw error;
  }
}

/** @throws DataLoss if the disk has other bytes than were written */
async function compare(target: Target, written: readonly Written[]): Promise<void> {
  const reads = new InFlight();
  try {
    for (const each of written) {
      await reads.fewerThan(atOnce);
      reads.start(() => compareOne(target, each));
    }
    await reads.fewerThan(1);
  } finally {
    await reads.ended();
  }
}

async function compareOne(
  { file, memory, to, toQueue }: Target,
  { digest, length, offsetBytes }: Written,
): Promise<void> {
  const slot = await memory.take();
  const found = await read({ queue: toQueue, file, slot }, { offsetBytes, lengthBytes: BigInt(length) });
  if (!(await digestOf(found)).equals(digest)) {
    throw new DataLoss(
      `the disk of the pool that receives the volume has other bytes at ${offsetBytes} of ${to.data.path} than were written: it is sick. Nothing was moved.`,
    );
  }
  slot.free();
}

interface Into {
  readonly queue: DiskQueue;
  readonly file: Descriptor;
  readonly slot: Slot;
}

/** Reads a complete range. @throws KernelError, RangeError if the file ends before */
async function read(
  { file, queue, slot }: Into,
  { lengthBytes, offsetBytes }: ByteRange,
): Promise<Buffer<ArrayBuffer>> {
  const bytes = slot.memory.subarray(0, Number(lengthBytes));
  await readExactly(queue, file, bytes, offsetBytes);
  return bytes;
}

/** On another thread. */
export async function digestOf(bytes: Buffer<ArrayBuffer>): Promise<Buffer> {
  return Buffer.from(await webcrypto.subtle.digest('SHA-256', bytes));
}

/** Reads the source while the target is written. */
export async function* piecesAhead(work: PieceWork): AsyncGenerator<Piece, void, void> {
  const { from, fromQueue: queue } = work;
  await using direct = await openPastCache(queue, from, constants.O_RDONLY | constants.O_NONBLOCK);
  const file = direct ?? from;
  const memory = new PieceMemory(readAhead + 1 + atOnce, Number(pieceBytes));
  const reading: Promise<Piece>[] = [];
  try {
    for await (const range of wholePieces(work)) {
      const piece = readPiece({ queue, file, slot: await memory.take() }, range);
      // It is awaited later.
      piece.catch(() => undefined);
      reading.push(piece);
      const first = reading.length > readAhead ? reading.shift() : undefined;
      if (first !== undefined) yield await first;
    }
    for (const piece of reading) yield await piece;
  } finally {
    // A read that goes on keeps the source open after its reader has left, and a volume that is open cannot be removed.
    await Promise.allSettled(reading);
  }
}

async function readPiece(into: Into, range: ByteRange): Promise<Piece> {
  const bytes = await read(into, range);
  const [offsetBytes, lengthBytes] = [range.offsetBytes, bytes.length];
  if (bytes.equals(zeros.subarray(0, lengthBytes))) {
    into.slot.free();
    return { offsetBytes, lengthBytes, data: undefined };
  }
  return { offsetBytes, lengthBytes, data: { bytes, digest: await digestOf(bytes), free: () => into.slot.free() } };
}

/** The ranges in whole blocks, and cut at multiples of the size of a piece. */
export async function* wholePieces({
  endBytes,
  fromBytes,
  ranges,
}: Pick<PieceWork, 'endBytes' | 'fromBytes' | 'ranges'>): AsyncGenerator<ByteRange, void, void> {
  let at = fromBytes;
  for await (const range of ranges) {
    const until = smaller(roundUp(range.offsetBytes + range.lengthBytes, blockBytes), endBytes);
    const start = range.offsetBytes - (range.offsetBytes % blockBytes);
    if (start > at) at = start;
    while (at < until) {
      const cut = smaller(roundUp(at + 1n, pieceBytes), until);
      yield { offsetBytes: at, lengthBytes: cut - at };
      at = cut;
    }
  }
}

/** The parts of a file that hold data; all of a device, which does not tell. */
export async function* dataRanges(
  queue: DiskQueue,
  file: Descriptor,
  fromBytes: bigint,
  endBytes: bigint,
): AsyncGenerator<ByteRange, void, void> {
  for (let at = fromBytes; at < endBytes; ) {
    let range: ByteRange | undefined;
    try {
      range = await nextData(queue, file, at);
    } catch (error) {
      if (!isErrno(error, 'EINVAL', 'ESPIPE')) throw error;
      range = { offsetBytes: at, lengthBytes: endBytes - at };
    }
    if (range === undefined) return;
    yield range;
    at = range.offsetBytes + range.lengthBytes;
  }
}

/** The number of bytes in them. */
export async function bytesIn(ranges: AsyncIterable<ByteRange>): Promise<bigint> {
  let sum = 0n;
  for await (const { lengthBytes } of ranges) sum += lengthBytes;
  return sum;
}
