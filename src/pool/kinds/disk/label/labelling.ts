import type { DiskIdentity } from '../../../../kernel/block/disk-identity.ts';
import {
  type GptFound,
  gptOf,
  hasHeaderOfOthers,
  hasMoreEntries,
  hasPartitionsOfOthers,
  isProtective,
  type Piece,
  readGpt,
} from './gpt.ts';
import { type DiskShape, type Extent, entriesBytes, layoutOf } from './layout.ts';
import { serializePayload } from './payload.ts';
import { encodeSlot } from './slots.ts';

/**
 * The parts of a disk that are read before anything is written to it: all that labelling may change, and must find to
 * be zeros.
 */
export interface DiskEnds {
  /** From its first byte to the end of the label. */
  readonly front: Buffer;
  /** From the end of the data to its last byte. */
  readonly tail: Buffer;
}

export function endsOf(shape: DiskShape): { readonly front: Extent; readonly tail: Extent } {
  const { data, tail } = layoutOf(shape);
  return { front: { offsetBytes: 0n, lengthBytes: data.offsetBytes }, tail };
}

/** The plan for the label of a disk. Every byte that is written follows from it. */
export interface Labelling {
  readonly poolId: string;
  readonly disk: DiskIdentity;
  readonly shape: DiskShape;
}

/**
 * The writes and their order, each group durably before the next. Until the last one the disk is blank to all other programs,
 * and for this driver the marker says more; with the last one the label is whole.
 */
export function planOf({ disk, poolId, shape }: Labelling): readonly (readonly Piece[])[] {
  const { data, label } = layoutOf(shape);
  const slot = { offsetBytes: label.offsetBytes, bytes: encodeSlot(1n, serializePayload({ poolId, disk, data })) };
  const { backupEntries, backupHeader, mbr, primaryEntries, primaryHeader } = gptOf(poolId, shape);
  return [[slot, primaryEntries, backupEntries], [backupHeader], [primaryHeader], [mbr]];
}

export type Verdict =
  /** Nothing but zeros: it may be labelled, if nothing else speaks against it. */
  | { readonly kind: 'blank' }
  /** A part of what the labelling that was begun writes, and zeros. */
  | { readonly kind: 'begun'; readonly poolId: string }
  /**
   * A disk of ours. @property isWhole false: one half of its table is damaged
   * @property diskBytes how large it was when it was labelled
   */
  | { readonly kind: 'labelled'; readonly poolId: string; readonly isWhole: boolean; readonly diskBytes: bigint }
  /** One half of its table is ours, and the other one foreign. */
  | { readonly kind: 'mixed' }
  /** One half of its table says that the disk was larger. */
  | { readonly kind: 'cut'; readonly diskBytes: bigint }
  | { readonly kind: 'foreign' };

/**
 * Decides strictly: bytes that are neither zeros nor what we would write are foreign. @param begunId as the marker has
 * it, of this very disk
 */
export function judgeDisk(ends: DiskEnds, shape: DiskShape, disk: DiskIdentity, begunId: string | undefined): Verdict {
  if (isOwn(ends.front, undefined) && isOwn(ends.tail, undefined)) return { kind: 'blank' };
  const found = tableOf(ends, shape);
  if (found !== undefined && found.diskBytes > shape.sizeBytes) return { kind: 'cut', diskBytes: found.diskBytes };
  if (found !== undefined && hasWhole(ends, found, shape)) {
    return { kind: 'labelled', ...found, isWhole: true };
  }
  if (begunId !== undefined && isBegun(ends, { poolId: begunId, disk, shape }))
    return { kind: 'begun', poolId: begunId };
  if (found === undefined) return { kind: 'foreign' };
  const halves = halvesOf(ends, found, shape);
  const isMixed =
    isTableOfOthers(ends.front, shape.sectorBytes, found.poolId) ||
    halves.some((half) => !half.isOurs && placesOfOthers(half, shape.sectorBytes).size > 1);
  if (isMixed) return { kind: 'mixed' };
  return { kind: 'labelled', ...found, isWhole: isProtective(ends.front) && halves.every(({ isOurs }) => isOurs) };
}

/**
 * The halves of the table. One is ours as it was made, or as a program has written it again since (sgdisk, a new name). Any
 * other is foreign unless it has only zeros, unreadable sectors, and a part of ours that is damaged in one place, as by a
 * write that was torn.
 */
function halvesOf(ends: DiskEnds, { diskBytes, poolId }: GptFound, shape: DiskShape): readonly Half[] {
  const { mbr, primaryEntries, primaryHeader, ...backup } = gptOf(poolId, { ...shape, sizeBytes: diskBytes });
  const { sectorBytes } = shape;
  const isOurs = ({ entries, header }: TablePart) =>
    readGpt(header, entries)?.poolId === poolId && !hasMoreEntries(entries);
  const front = {
    ...{ bytes: ends.front, startBytes: 0n, pieces: [mbr, primaryHeader, primaryEntries] },
    isOurs: isOurs(primaryIn(ends, sectorBytes)),
  };
  // If the disk has grown, the second half lies in a place that may be the volume's by now.
  if (diskBytes !== shape.sizeBytes) return [front];
  const tail = {
    ...{ bytes: ends.tail, startBytes: layoutOf(shape).tail.offsetBytes },
    ...{ pieces: [backup.backupEntries, backup.backupHeader], isOurs: isOurs(backupIn(ends, sectorBytes)) },
  };
  return [front, tail];
}

interface Half {
  readonly bytes: Buffer;
  readonly startBytes: bigint;
  readonly pieces: readonly Piece[];
  readonly isOurs: boolean;
}

/** The blocks in which it has sectors that are neither as they should be, nor zeros, nor could not be read. */
function placesOfOthers({ bytes, pieces, startBytes }: Half, sectorBytes: number): Set<bigint> {
  const blocks = new Set<bigint>();
  for (const piece of pieces) {
    for (let at = 0; at < piece.bytes.length; at += sectorBytes) {
      const offsetBytes = piece.offsetBytes + BigInt(at);
      const start = Number(offsetBytes - startBytes);
      const sector = bytes.subarray(start, start + sectorBytes);
      if (sector.equals(piece.bytes.subarray(at, at + sectorBytes)) || isFilled(sector)) continue;
      blocks.add(offsetBytes / BigInt(pieceBytes));
    }
  }
  return blocks;
}

/** With zeros, or with what stands for a sector that cannot be read. */
function isFilled(sector: Buffer): boolean {
  const [first = 0] = sector;
  return (first === 0 || first === 0xff) && sector.every((byte) => byte === first);
}

/** A table of partitions in front that is whole, and not ours: the old one of PCs, or a GPT. */
function isTableOfOthers(front: Buffer, sectorBytes: number, poolId: string): boolean {
  return hasPartitionsOfOthers(front) || hasHeaderOfOthers(front.subarray(sectorBytes, 2 * sectorBytes), poolId);
}

/** The statement of either half of its table. A disk that has grown since has the second half where its end was. */
function tableOf(ends: DiskEnds, { sectorBytes }: DiskShape): GptFound | undefined {
  const [primary, backup] = [primaryIn(ends, sectorBytes), backupIn(ends, sectorBytes)];
  return readGpt(primary.header, primary.entries) ?? readGpt(backup.header, backup.entries);
}

/** The pool that a disk of any sort names. */
export function poolIn(ends: DiskEnds, shape: DiskShape): string | undefined {
  return tableOf(ends, shape)?.poolId;
}

interface TablePart {
  readonly header: Buffer;
  readonly entries: Buffer;
}

function primaryIn({ front }: DiskEnds, sectorBytes: number): TablePart {
  const entriesAt = 2 * sectorBytes;
  const entries = front.subarray(entriesAt, entriesAt + Number(entriesBytes));
  return { header: front.subarray(sectorBytes, entriesAt), entries };
}

function backupIn({ tail }: DiskEnds, sectorBytes: number): TablePart {
  const lastAt = tail.length - sectorBytes;
  return { header: tail.subarray(lastAt), entries: tail.subarray(lastAt - Number(entriesBytes), lastAt) };
}

function hasWhole(ends: DiskEnds, { diskBytes, poolId }: GptFound, shape: DiskShape): boolean {
  const { mbr, primaryEntries, primaryHeader, ...backup } = gptOf(poolId, { ...shape, sizeBytes: diskBytes });
  const isThere = (buffer: Buffer, startBytes: bigint, { bytes, offsetBytes }: Piece) => {
    const at = Number(offsetBytes - startBytes);
    return buffer.subarray(at, at + bytes.length).equals(bytes);
  };
  const isFrontWhole = [mbr, primaryEntries, primaryHeader].every((piece) => isThere(ends.front, 0n, piece));
  if (diskBytes !== shape.sizeBytes) return isFrontWhole;
  const { tail } = layoutOf(shape);
  const isTailWhole = [backup.backupEntries, backup.backupHeader].every((piece) =>
    isThere(ends.tail, tail.offsetBytes, piece),
  );
  return isFrontWhole && isTailWhole;
}

function isBegun(ends: DiskEnds, labelling: Labelling): boolean {
  const { front, tail } = endsOf(labelling.shape);
  const pieces = planOf(labelling).flat();
  return isOwn(ends.front, expected(front, pieces)) && isOwn(ends.tail, expected(tail, pieces));
}

/** A part of the disk as it is once it is labelled. */
function expected({ lengthBytes, offsetBytes }: Extent, pieces: readonly Piece[]): Buffer {
  const buffer = Buffer.alloc(Number(lengthBytes));
  for (const { bytes, offsetBytes: at } of pieces) {
    if (at >= offsetBytes && at < offsetBytes + lengthBytes) bytes.copy(buffer, Number(at - offsetBytes));
  }
  return buffer;
}

/** Most of it is zeros, which are compared in pieces. */
const pieceBytes = 4096;
const zeros = Buffer.alloc(pieceBytes);

/** True if each byte is zero, or the one that is expected there. */
function isOwn(bytes: Buffer, wanted: Buffer | undefined): boolean {
  for (let start = 0; start < bytes.length; start += pieceBytes) {
    const piece = bytes.subarray(start, start + pieceBytes);
    if (piece.equals(zeros.subarray(0, piece.length))) continue;
    if (!piece.every((byte, at) => byte === 0 || byte === wanted?.[start + at])) return false;
  }
  return true;
}
