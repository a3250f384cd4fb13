import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { defaultFileBytes } from './size.ts';

const gibibyte = 1n << 30n;

test('four fifths of what is free, in whole mebibytes, below the largest file of ext4', () => {
  assert.equal(defaultFileBytes(100n * gibibyte), 80n * gibibyte);
  assert.equal(defaultFileBytes(gibibyte + 12345n), 819n << 20n);
  assert.equal(defaultFileBytes(0n), 0n);
  assert.equal(defaultFileBytes(1n << 50n), 15n << 40n);
});

test('what the file itself has taken counts as free; it grows for a difference that counts, and never shrinks', () => {
  const present = { sizeBytes: 80n * gibibyte, allocatedBytes: 60n * gibibyte };
  assert.equal(defaultFileBytes(40n * gibibyte, present), 80n * gibibyte);
  assert.equal(defaultFileBytes(45n * gibibyte, present), 80n * gibibyte);
  assert.equal(defaultFileBytes(90n * gibibyte, present), 120n * gibibyte);
  fc.assert(
    fc.property(fc.bigInt(0n, 1n << 60n), fc.bigInt(1n, 1n << 50n), fc.bigInt(0n, 1n << 50n), (free, size, taken) => {
      const bytes = defaultFileBytes(free, { sizeBytes: size, allocatedBytes: taken });
      assert.ok(bytes >= size);
      // The next start finds nothing more to do.
      assert.equal(defaultFileBytes(free, { sizeBytes: bytes, allocatedBytes: taken }), bytes);
    }),
  );
});
