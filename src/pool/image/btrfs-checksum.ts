import { createHash } from 'node:crypto';

/**
 * The checksums that btrfs knows, by the number that the superblock has for each (btrfs(5), CHECKSUM ALGORITHMS): of a
 * whole number of 32-byte pieces, as the rest of a superblock is. Little-endian, as it is stored.
 * @returns undefined for a number that is none of these
 */
export function btrfsChecksum(type: number, data: Buffer): Buffer | undefined {
  switch (type) {
    case 0:
      return crc32c(data);
    case 1:
      return xxhash64(data);
    case 2:
      return createHash('sha256').update(data).digest();
    case 3:
      return blake2b256(data);
    default:
      return undefined;
  }
}

/** RFC 3720, appendix B.4: the polynomial of Castagnoli, bits reflected. */
const castagnoli = 0x82f63b78;

function crc32c(data: Buffer): Buffer {
  let register = 0xffffffff;
  for (const byte of data) {
    register ^= byte;
    for (let bit = 0; bit < 8; bit++) register = (register >>> 1) ^ (register & 1 ? castagnoli : 0);
  }
  const checksum = Buffer.alloc(4);
  checksum.writeUInt32LE(~register >>> 0);
  return checksum;
}

/** Numbers of 64 bits that run over, as both of the following have them. */
const mask = (1n << 64n) - 1n;
const add = (...terms: bigint[]) => terms.reduce((sum, term) => sum + term) & mask;
const times = (a: bigint, b: bigint) => (a * b) & mask;
const rotateLeft = (value: bigint, bits: bigint) => ((value << bits) | (value >> (64n - bits))) & mask;
const rotateRight = (value: bigint, bits: bigint) => rotateLeft(value, 64n - bits);

/** XXH64 of the xxHash specification with seed 0, for data without a rest that does not fill a stripe of 32 bytes. */
function xxhash64(data: Buffer): Buffer {
  const [p1, p2, p3, p4] = [11400714785074694791n, 14029467366897019727n, 1609587929392839161n, 9650029242287828579n];
  const round = (lane: bigint, input: bigint) => times(rotateLeft(add(lane, times(input, p2)), 31n), p1);
  const lanes = [add(p1, p2), p2, 0n, mask + 1n - p1];
  for (let at = 0; at < data.length; at += 32) {
    for (const [index, lane] of lanes.entries()) lanes[index] = round(lane, data.readBigUInt64LE(at + index * 8));
  }
  const rotations = [1n, 7n, 12n, 18n];
  let hash = add(...lanes.map((lane, index) => rotateLeft(lane, rotations[index] ?? 0n)));
  for (const lane of lanes) hash = add(times(hash ^ round(0n, lane), p1), p4);
  hash = add(hash, BigInt(data.length));
  hash = times(hash ^ (hash >> 33n), p2);
  hash = times(hash ^ (hash >> 29n), p3);
  hash ^= hash >> 32n;
  const checksum = Buffer.alloc(8);
  checksum.writeBigUInt64LE(hash);
  return checksum;
}

/** RFC 7693, section 2.6: the same as of SHA-512. */
const initial = [
  0x6a09e667f3bcc908n,
  0xbb67ae8584caa73bn,
  0x3c6ef372fe94f82bn,
  0xa54ff53a5f1d36f1n,
  0x510e527fade682d1n,
  0x9b05688c2b3e6c1fn,
  0x1f83d9abfb41bd6bn,
  0x5be0cd19137e2179n,
];

/** RFC 7693, section 2.7: in which order each round takes the words of a block; the last two are the first two again. */
const orders = [
  [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
  [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
  [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4],
  [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
  [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13],
  [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
  [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11],
  [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
  [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5],
  [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
];

/** RFC 7693, section 3.2: columns, then diagonals, of the four by four words of a block's state. */
const mixed = [
  [0, 4, 8, 12],
  [1, 5, 9, 13],
  [2, 6, 10, 14],
  [3, 7, 11, 15],
  [0, 5, 10, 15],
  [1, 6, 11, 12],
  [2, 7, 8, 13],
  [3, 4, 9, 14],
] as const;

const blockBytes = 128;
const digestBytes = 32;

/** BLAKE2b of RFC 7693 with a digest of 256 bits and no key, for data that is not empty. */
function blake2b256(data: Buffer): Buffer {
  const hash = initial.map((word, index) => (index === 0 ? word ^ BigInt(0x01010000 ^ digestBytes) : word));
  for (let at = 0; at < data.length; at += blockBytes) {
    const block = Buffer.alloc(blockBytes);
    data.copy(block, 0, at, at + blockBytes);
    const words = Array.from({ length: 16 }, (_, index) => block.readBigUInt64LE(index * 8));
    const isLast = at + blockBytes >= data.length;
    const state = [...hash, ...initial];
    const atState = (index: number) => state[index] ?? 0n;
    state[12] = atState(12) ^ BigInt(Math.min(data.length, at + blockBytes));
    if (isLast) state[14] = atState(14) ^ mask;
    for (let round = 0; round < 12; round++) {
      const order = orders[round % orders.length] ?? [];
      for (const [pair, [a, b, c, d]] of mixed.entries()) {
        for (const [half, [first, second]] of [[32n, 24n] as const, [16n, 63n] as const].entries()) {
          state[a] = add(atState(a), atState(b), words[order[pair * 2 + half] ?? 0] ?? 0n);
          state[d] = rotateRight(atState(d) ^ atState(a), first);
          state[c] = add(atState(c), atState(d));
          state[b] = rotateRight(atState(b) ^ atState(c), second);
        }
      }
    }
    for (const [index, word] of hash.entries()) hash[index] = word ^ atState(index) ^ atState(index + 8);
  }
  const checksum = Buffer.alloc(64);
  for (const [index, word] of hash.entries()) checksum.writeBigUInt64LE(word, index * 8);
  return checksum.subarray(0, digestBytes);
}
