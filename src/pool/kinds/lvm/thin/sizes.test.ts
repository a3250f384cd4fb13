import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type { ThinPoolStatus } from '../../../../kernel/block/thin-status.ts';
import { chunkBytesFor, growthWithin, largestMetadataBytes, metadataBytesFor, shortageOf } from './sizes.ts';

const mebibyte = 1n << 20n;
const gibibyte = 1n << 30n;

describe('the sizes of a thin pool', () => {
  test('chunks are small as long as their number allows it', () => {
    const chunks: readonly (readonly [bigint, bigint])[] = [
      [gibibyte, 64n << 10n],
      [1024n * gibibyte, 64n << 10n],
      [1025n * gibibyte, 128n << 10n],
      [16n * 1024n * gibibyte, 1n << 20n],
    ];
    for (const [sizeBytes, chunkBytes] of chunks) assert.equal(chunkBytesFor(sizeBytes), chunkBytes);
  });

  test('metadata has room for a map of all chunks, and of as many once more', () => {
    assert.equal(metadataBytesFor(gibibyte, 64n << 10n), 16n * mebibyte);
    assert.equal(metadataBytesFor(1024n * gibibyte, 64n << 10n), 2n * gibibyte);
    fc.assert(
      fc.property(fc.bigInt({ min: 256n * mebibyte, max: 1n << 50n }), (sizeBytes) => {
        const chunkBytes = chunkBytesFor(sizeBytes);
        const metadataBytes = metadataBytesFor(sizeBytes, chunkBytes);
        return metadataBytes <= 2n * gibibyte && metadataBytes >= (sizeBytes / chunkBytes) * 64n;
      }),
    );
  });
});

function status(dataPercent: number, metadataPercent: number, changes: Partial<ThinPoolStatus> = {}): ThinPoolStatus {
  const filling = (percent: number, totalBytes: bigint) => ({
    usedBytes: (totalBytes * BigInt(percent)) / 100n,
    totalBytes,
  });
  const data = filling(dataPercent, 100n * gibibyte);
  return { mode: 'rw', data, metadata: filling(metadataPercent, gibibyte), needsCheck: false, ...changes };
}

describe('what of a thin pool is about to run out', () => {
  test('it grows before anybody is alarmed', () => {
    assert.deepEqual(shortageOf(status(79, 49), true), { moreDataBytes: 0n, moreMetadataBytes: 0n, alarm: undefined });
    assert.deepEqual(shortageOf(status(80, 50), true), {
      moreDataBytes: 20n * gibibyte,
      moreMetadataBytes: gibibyte,
      alarm: undefined,
    });
    assert.equal(shortageOf(status(89, 74), true).alarm, undefined);
    assert.equal(shortageOf(status(90, 74), true).alarm, 'data');
    assert.equal(shortageOf(status(0, 75), true).alarm, 'metadata');
  });

  test('data that is promised once cannot run out', () => {
    assert.deepEqual(shortageOf(status(98, 10), false), { moreDataBytes: 0n, moreMetadataBytes: 0n, alarm: undefined });
  });

  test('metadata grows no further than LVM lets it', () => {
    const full = (totalBytes: bigint) => status(0, 60, { metadata: { usedBytes: totalBytes, totalBytes } });
    assert.equal(shortageOf(full(largestMetadataBytes), true).moreMetadataBytes, 0n);
    assert.equal(shortageOf(full(largestMetadataBytes - mebibyte), true).moreMetadataBytes, mebibyte);
  });

  test('one that writes nothing any more alarms, and grows only where that helps', () => {
    assert.equal(shortageOf(status(10, 10, { mode: 'ro' }), false).alarm, 'mode');
    assert.equal(shortageOf(status(100, 10, { mode: 'out_of_data_space' }), true).moreDataBytes, 20n * gibibyte);
    for (const changes of [{ mode: 'fail' }, { mode: 'ro', needsCheck: true }] as const) {
      const { alarm, moreDataBytes, moreMetadataBytes } = shortageOf(status(100, 100, changes), true);
      assert.deepEqual([alarm, moreDataBytes, moreMetadataBytes], ['mode', 0n, 0n]);
    }
  });

  test('it grows by whole extents that are there', () => {
    const extentBytes = 4n * mebibyte;
    assert.equal(growthWithin(0n, gibibyte, extentBytes), 0n);
    assert.equal(growthWithin(1n, gibibyte, extentBytes), extentBytes);
    assert.equal(growthWithin(gibibyte, 10n * mebibyte, extentBytes), 8n * mebibyte);
    assert.equal(growthWithin(gibibyte, 3n * mebibyte, extentBytes), 0n);
  });
});
