import { createHash } from 'node:crypto';
import { blake2b } from '@noble/hashes/blake2.js';
import { allOnes, crc32c } from '../kernel/block/crc32.ts';

/**
 * The checksums that btrfs knows, by the number that the superblock has for each (btrfs(5), CHECKSUM ALGORITHMS): of a
 * whole number of 32-byte pieces, as the rest of a superblock is. Little-endian, as it is stored.
 * @returns undefined for a number that is none of these
 */
export function btrfsChecksum(type: number, data: Buffer): Buffer | undefined {
  switch (type) {
    case 0:
      return crc32cChecksum(data);
    case 1:
      return xxhash64(data);
    case 2:
      return createHash('sha256').update(data).digest();
    case 3:
      return Buffer.from(blake2b(data, { dkLen: 32 }));
    default:
      return undefined;
  }
}

function crc32cChecksum(data: Buffer): Buffer {
  const checksum = Buffer.alloc(4);
  checksum.writeUInt32LE(~crc32c(allOnes, data) >>> 0);
  return checksum;
}

/** Numbers of 64 bits that run over. */
const mask = (1n << 64n) - 1n;
const add = (...terms: bigint[]) => terms.reduce((sum, term) => sum + term) & mask;
const times = (a: bigint, b: bigint) => (a * b) & mask;
const rotateLeft = (value: bigint, bits: bigint) => ((value << bits) | (value >> (64n - bits))) & mask;

/** XXH64 of the xxHash specification with seed 0, for data without a rest that does not fill a stripe of 32 bytes. */
function xxhash64(data: Buffer): Buffer {
  const [p1, p2, p3, p4] = [11400714785074694791n, 14029467366897019727n, 1609587929392839161n, 9650029242287828579n];
  const round = (queue: bigint, input: bigint) => times(rotateLeft(add(queue, times(input, p2)), 31n), p1);
  const queues = [add(p1, p2), p2, 0n, mask + 1n - p1];
  for (let at = 0; at < data.length; at += 32) {
    for (const [index, queue] of queues.entries()) queues[index] = round(queue, data.readBigUInt64LE(at + index * 8));
  }
  const rotations = [1n, 7n, 12n, 18n];
  let hash = add(...queues.map((queue, index) => rotateLeft(queue, rotations[index] ?? 0n)));
  for (const queue of queues) hash = add(times(hash ^ round(0n, queue), p1), p4);
  hash = add(hash, BigInt(data.length));
  hash = times(hash ^ (hash >> 33n), p2);
  hash = times(hash ^ (hash >> 29n), p3);
  hash ^= hash >> 32n;
  const checksum = Buffer.alloc(8);
  checksum.writeBigUInt64LE(hash);
  return checksum;
}
