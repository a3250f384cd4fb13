import { allOnes, crc32c } from './crc32.ts';

/*
 * The format of the metadata device of a thin pool, as Linux has written it since 3.2 (dm-thin-metadata.c, and
 * dm-btree-internal.h in drivers/md/persistent-data): blocks with a checksum and their own number. B-trees map the id
 * of a thin device to the B-tree of that device, and that maps the device's chunks to those of the pool.
 */

export const metadataBlockBytes = 4096;

/** The state of the pool at one moment. A metadata snapshot is a second one. */
export interface ThinSuperblock {
  /** The root of the tree of all devices. */
  readonly rootBlock: bigint;
  readonly chunkBytes: bigint;
}

/**
 * A node of a tree: a value for each key. In an inner node the values are blocks, and the keys are the smallest keys
 * below them.
 */
export interface ThinNode {
  readonly isLeaf: boolean;
  readonly keys: readonly bigint[];
  readonly values: readonly bigint[];
}

const magic = 27_022_010n;
/** Salts that the checksums of each sort of block include, so that one sort is never taken for another. */
const superblockSalt = 160_774;
const nodeSalt = 121_107;

const headerBytes = 32;
const numberBytes = 8;
const internalNode = 1;
const leafNode = 2;
const sectorBytes = 512n;

/** @returns undefined if it is not a valid superblock for that block */
export function parseThinSuperblock(bytes: Buffer, block: bigint): ThinSuperblock | undefined {
  if (!isWhole(bytes, block, superblockSalt) || bytes.readBigUInt64LE(32) !== magic) return undefined;
  return {
    rootBlock: bytes.readBigUInt64LE(320),
    chunkBytes: BigInt(bytes.readUInt32LE(336)) * sectorBytes,
  };
}

/** @returns undefined if it is not a valid node for that block */
export function parseThinNode(bytes: Buffer, block: bigint): ThinNode | undefined {
  if (!isWhole(bytes, block, nodeSalt)) return undefined;
  const flags = bytes.readUInt32LE(4);
  const count = bytes.readUInt32LE(16);
  const room = bytes.readUInt32LE(20);
  const valueBytes = bytes.readUInt32LE(24);
  const isLeaf = (flags & leafNode) !== 0;
  if (isLeaf === ((flags & internalNode) !== 0) || valueBytes !== numberBytes) return undefined;
  if (count > room || headerBytes + 2 * numberBytes * room > bytes.length) return undefined;
  const numbersAt = (start: number) =>
    Array.from({ length: count }, (_, index) => bytes.readBigUInt64LE(start + index * numberBytes));
  return { isLeaf, keys: numbersAt(headerBytes), values: numbersAt(headerBytes + room * numberBytes) };
}

/** The chunk of the pool in a leaf of a device's tree; the lower bits are the time of allocation. */
export function chunkOf(value: bigint): bigint {
  return value >> 24n;
}

/** Linux does not invert the sum, and mixes in the salt. */
export function checksumOf(bytes: Buffer, salt: number): number {
  return (crc32c(allOnes, bytes.subarray(4)) ^ salt) >>> 0;
}

function isWhole(bytes: Buffer, block: bigint, salt: number): boolean {
  if (bytes.length !== metadataBlockBytes) return false;
  return bytes.readUInt32LE(0) === checksumOf(bytes, salt) && bytes.readBigUInt64LE(8) === block;
}
