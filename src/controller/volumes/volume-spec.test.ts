import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { roundUp } from '../../volume/size.ts';
import { restoreBytes } from './volume-spec.ts';

const mebibyte = 1n << 20n;

describe('CS12: what is to be asked for to restore a snapshot', () => {
  const ofExt4 = (sizeBytes: bigint) => restoreBytes({ content: { type: 'mount', fsType: 'ext4' }, sizeBytes });

  test('is unspecified where the filesystem is as small as it can be', () => {
    assert.equal(ofExt4(16n * mebibyte), 0n);
    assert.equal(ofExt4(16n * mebibyte + 4096n), 16n * mebibyte + 4096n);
    assert.equal(restoreBytes({ content: { type: 'mount', fsType: 'xfs' }, sizeBytes: 300n * mebibyte }), 0n);
    assert.equal(restoreBytes({ content: { type: 'block' }, sizeBytes: 16n * mebibyte }), 16n * mebibyte);
  });

  test('is the size, or the power of ten that was rounded up to it', () => {
    for (const asked of [100n * mebibyte, 1n << 30n, 10n << 30n, 1n << 40n]) assert.equal(ofExt4(asked), asked);
    for (const asked of [20n * 10n ** 6n, 10n ** 9n, 10n * 10n ** 9n, 10n ** 12n]) {
      assert.equal(ofExt4(roundUp(asked, 4096n)), asked);
    }
  });
});
