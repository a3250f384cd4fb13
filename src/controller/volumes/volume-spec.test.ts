import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { roundUp } from '../../volume/size.ts';
import { restoreBytes } from './volume-spec.ts';

const mebibyte = 1n << 20n;

describe('CS12: what is to be asked for to restore a snapshot', () => {
  const ofExt4 = (sizeBytes: bigint) => restoreBytes({ content: { type: 'mount', fsType: 'ext4' }, sizeBytes });

  test('is unspecified where the filesystem is as small as it can be', () => {
    assert.equal(ofExt4(16n * mebibyte), 0n);
    assert.equal(ofExt4(16n * mebibyte + 4096n), 16n * mebibyte + 1n);
    assert.equal(restoreBytes({ content: { type: 'mount', fsType: 'xfs' }, sizeBytes: 300n * mebibyte }), 0n);
    assert.equal(restoreBytes({ content: { type: 'block' }, sizeBytes: 16n * mebibyte }), 16n * mebibyte);
  });

  test('R04: is the size in mebibytes, and no more than any request that was rounded up to it', () => {
    for (const asked of [100n * mebibyte, 1n << 30n, 10n << 30n, 1n << 40n]) assert.equal(ofExt4(asked), asked);
    const precise = [1136234735n, 1073741825n, 72713842525n, 999999999n, 11362347344n];
    for (const asked of [...precise, 20n * 10n ** 6n, 10n ** 9n, 10n * 10n ** 9n, 10n ** 12n]) {
      const made = roundUp(asked, 4096n);
      assert.ok(ofExt4(made) <= asked, `${asked}`);
      assert.equal(roundUp(ofExt4(made), 4096n), made);
    }
  });
});
