import { sizeOfDevice } from '../../../kernel/block/block.ts';
import type { Descriptor } from '../../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { readAtMost } from '../../../kernel/file/file.ts';
import { beginningBytes, isZeros } from '../content.ts';

/*
 * A disk with zeros at both ends may still hold data: a filesystem whose beginning was wiped has copies of its superblock, and a
 * database has no signature at all. So it is looked at where such copies lie, and at blocks all over it.
 */

interface Range {
  readonly offsetBytes: bigint;
  readonly lengthBytes: number;
}

const blockBytes = 4096;
const mebibyte = 1n << 20n;
const spreadBlocks = 512n;
/** All of it is read: the header of an encryption is written over most of it. */
const frontBytes = 17n * mebibyte;
/** Copies of btrfs (btrfs-progs, btrfs_sb_offset). */
const btrfsCopies = [64n * mebibyte, 256n << 30n];
/** Groups of ext4 with a copy (sparse_super), and their sizes with blocks of 1, 2 and 4 KiB. */
const extGroups = [1n, 3n, 5n, 7n, 9n];
const extGroupBytes = [8n * mebibyte, 32n * mebibyte, 128n * mebibyte];
/** The usual place of the first partition, whose table may be gone. */
const partitionBytes = mebibyte;
/** Groups of XFS: four, or of 1 TiB. They are rounded, and may be aligned to stripes. */
const xfsGroups = 4n;
const xfsLongestGroupBytes = 1n << 40n;
const xfsRoundingBytes = 1n << 16n;

/** The first byte of a piece, of those that are looked at, in which there is anything but zeros; undefined: in none. */
export async function findScatteredData(
  queue: DiskQueue,
  device: Descriptor,
  fromBytes: bigint,
): Promise<bigint | undefined> {
  for (const range of placesOf(sizeOfDevice(device), fromBytes)) {
    const offsetBytes = Number(range.offsetBytes);
    if (!isZeros(await readAtMost(queue, device, { ...range, offsetBytes }))) return range.offsetBytes;
  }
  return undefined;
}

/** @param fromBytes a multiple of 4096: what lies before is left out */
export function placesOf(sizeBytes: bigint, fromBytes: bigint): Range[] {
  const copies = [...btrfsCopies, ...extGroupBytes.flatMap((bytes) => extGroups.map((group) => group * bytes))].flatMap(
    (at) => [at, at + partitionBytes],
  );
  const spread = Array.from({ length: Number(spreadBlocks) }, (_, index) => (BigInt(index) * sizeBytes) / spreadBlocks);
  const blocks = [...copies, ...spread].map((at) => ({ offsetBytes: alignedDown(at), lengthBytes: blockBytes }));
  const last = alignedDown(sizeBytes - BigInt(beginningBytes));
  const pieces = [
    ...piecesOf(fromBytes, frontBytes),
    ...xfsStarts(sizeBytes).flatMap((at) => piecesOf(at - xfsRoundingBytes, at + partitionBytes + xfsRoundingBytes)),
    ...piecesOf(last, sizeBytes),
    ...blocks,
  ];
  return pieces.filter(({ offsetBytes }) => offsetBytes >= fromBytes && offsetBytes < sizeBytes);
}

function xfsStarts(sizeBytes: bigint): bigint[] {
  const quarter = sizeBytes / xfsGroups;
  const groupBytes = quarter > xfsLongestGroupBytes ? xfsLongestGroupBytes : quarter;
  return Array.from({ length: Number(xfsGroups) - 1 }, (_, index) => alignedDown(BigInt(index + 1) * groupBytes));
}

function piecesOf(startBytes: bigint, endBytes: bigint): Range[] {
  const pieces: Range[] = [];
  for (let at = startBytes; at < endBytes; at += mebibyte) {
    const left = endBytes - at;
    pieces.push({ offsetBytes: at, lengthBytes: Number(left < mebibyte ? left : mebibyte) });
  }
  return pieces;
}

function alignedDown(bytes: bigint): bigint {
  return bytes - (bytes % BigInt(blockBytes));
}
