import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { isWorthTrimming } from './trimmer.ts';

const mebibyte = 1n << 20n;
const use = { usedBytes: 100n * mebibyte, reservedBytes: 0n, logBytes: 0n };

describe('what is worth trimming', () => {
  test('16 MiB beside what is used and a log of 64 MiB, which may have been written or not', () => {
    assert.equal(isWorthTrimming(180n * mebibyte, use), true);
    assert.equal(isWorthTrimming(180n * mebibyte - 1n, use), false);
    assert.equal(isWorthTrimming(80n * mebibyte - 1n, { ...use, usedBytes: 0n }), false);
  });

  test('what the filesystem only sets aside does not count as used, as it takes nothing', () => {
    const reserving = { ...use, usedBytes: 141n * mebibyte, reservedBytes: 41n * mebibyte };
    assert.equal(isWorthTrimming(180n * mebibyte, reserving), true);
    assert.equal(isWorthTrimming(180n * mebibyte - 1n, reserving), false);
  });

  test('a larger log is not taken for something that can be given back', () => {
    const large = { ...use, logBytes: 512n * mebibyte };
    assert.equal(isWorthTrimming(627n * mebibyte, large), false);
    assert.equal(isWorthTrimming(628n * mebibyte, large), true);
  });
});
