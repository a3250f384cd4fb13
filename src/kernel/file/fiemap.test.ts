import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decodeExtents, extentsPerCall } from './fiemap.ts';

/** struct fiemap as the kernel returns it, with one extent of 4 KiB for each list of flags. */
function filled(...flags: readonly number[]): Buffer {
  const map = Buffer.alloc(32 + extentsPerCall * 56);
  map.writeUInt32LE(flags.length, 20);
  for (const [index, flag] of flags.entries()) {
    const at = 32 + index * 56;
    map.writeBigUInt64LE(BigInt(index) * 8192n, at);
    map.writeBigUInt64LE(2n ** 60n + BigInt(index) * 4096n, at + 8);
    map.writeBigUInt64LE(4096n, at + 16);
    map.writeUInt32LE(flag, at + 40);
  }
  return map;
}

const hex = (flag: number) => `0x${flag.toString(16)}`;

test('a written extent has a place: alone, the last of the file, merged, or shared', () => {
  for (const flags of [0, 0x1, 0x1000, 0x2000, 0x2001]) {
    assert.deepEqual(decodeExtents(filled(flags), 1n << 20n).extents, [
      { offsetBytes: 0n, lengthBytes: 4096n, isWritten: true, physicalBytes: 2n ** 60n },
    ]);
  }
});

test('SM14: an extent has no place that could be compared with any other flag, known or not', () => {
  const withPlace = 0x1 | 0x800 | 0x1000 | 0x2000;
  for (let bit = 0; bit < 32; bit++) {
    const flag = (1 << bit) >>> 0;
    const [extent] = decodeExtents(filled(flag), 1n << 20n).extents;
    assert.equal(extent?.physicalBytes === undefined, (flag & withPlace) === 0, hex(flag));
  }
});

test('SM14: unwritten blocks read as zeros, but not while data waits to be written to them', () => {
  const written = [0x800, 0x801, 0x2800, 0x804, 0x806].map(
    (flags) => decodeExtents(filled(flags), 1n << 20n).extents[0]?.isWritten,
  );
  assert.deepEqual(written, [false, false, false, true, true]);
});

test('a full page ends with its last extent, any other with the range', () => {
  const toBytes = 1n << 40n;
  const full = filled(...Array.from({ length: extentsPerCall }, () => 0));
  const endBytes = BigInt(extentsPerCall - 1) * 8192n + 4096n;
  assert.equal(decodeExtents(full, toBytes).untilBytes, endBytes);
  assert.equal(decodeExtents(full, endBytes - 1n).untilBytes, endBytes - 1n);
  assert.equal(decodeExtents(filled(0, 0), toBytes).untilBytes, toBytes);
  assert.equal(decodeExtents(filled(), toBytes).untilBytes, toBytes);
});
