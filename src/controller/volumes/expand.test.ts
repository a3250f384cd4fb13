import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { OutOfRange } from '../../volume/errors.ts';
import { volumeIdFor } from '../../volume/id.ts';
import { maximumVolumeBytes } from '../../volume/size.ts';
import { targetSize } from './expand.ts';

const volume = { id: volumeIdFor('n1', 'fast', 'pvc-1'), sizeBytes: 1n << 20n };
const target = (requiredBytes: bigint | undefined, limitBytes?: bigint) =>
  targetSize(volume, { requiredBytes, limitBytes });

describe('the size after an expansion', () => {
  test('CE03: an aligned size is taken exactly', () => assert.equal(target(2n << 20n), 2n << 20n));
  test('a size in between is rounded up', () => assert.equal(target((2n << 20n) + 1n), (2n << 20n) + 4096n));
  test('CE04: a size it has already stays', () => assert.equal(target(1n), volume.sizeBytes));
  test('CE04: a limit alone changes nothing', () => assert.equal(target(undefined, 1n << 30n), volume.sizeBytes));
  test('CE08: rounding up does not pass the limit', () => {
    assert.throws(() => target((2n << 20n) + 1n, (2n << 20n) + 4095n), OutOfRange);
    assert.equal(target((2n << 20n) + 1n, (2n << 20n) + 4096n), (2n << 20n) + 4096n);
  });
  test('CE04: a limit below the size it has is OUT_OF_RANGE', () => {
    assert.throws(() => target(1n, volume.sizeBytes - 1n), { name: OutOfRange.name, message: /never shrink/ });
  });
  test('CE08: more than a volume can have is OUT_OF_RANGE', () => {
    assert.throws(() => target(maximumVolumeBytes + 1n), OutOfRange);
    assert.equal(target(maximumVolumeBytes), maximumVolumeBytes);
  });
});
