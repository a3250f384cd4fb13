import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { computeCapacity, defaultReserveBytes, freeInBackingFile } from './space.ts';

const gib = 1n << 30n;
const use = {
  filesystemBytes: 100n * gib,
  freeBytes: 90n * gib,
  reserveBytes: 1n * gib,
  overcommit: 1,
  volumes: [],
  reclaimableBytes: 0n,
  reservedBytes: 0n,
};

describe('GC04: what a pool can promise', () => {
  test('an empty pool promises what is free less the reserve', () => {
    assert.equal(computeCapacity(use).availableBytes, 89n * gib);
  });

  test('a thin volume counts with what it may still claim, not with what it takes now', () => {
    const volumes = [{ sizeBytes: 50n * gib, allocatedBytes: 5n * gib, isSharing: false }];
    const capacity = computeCapacity({ ...use, freeBytes: 85n * gib, volumes });
    assert.equal(capacity.availableBytes, 39n * gib);
    assert.equal(capacity.promisedBytes, 50n * gib);
    assert.equal(capacity.usedBytes, 5n * gib);
  });

  test('writing to a thin volume changes nothing: the space was promised', () => {
    fc.assert(
      fc.property(fc.bigInt(0n, 50n * gib), (written) => {
        const volumes = [{ sizeBytes: 50n * gib, allocatedBytes: written, isSharing: false }];
        const { availableBytes } = computeCapacity({ ...use, freeBytes: use.freeBytes - written, volumes });
        assert.equal(availableBytes, 39n * gib);
      }),
    );
  });

  test('a volume that shares its blocks with a snapshot may have to write all of them anew', () => {
    const volumes = [{ sizeBytes: 50n * gib, allocatedBytes: 5n * gib, isSharing: true }];
    const { availableBytes } = computeCapacity({ ...use, freeBytes: 85n * gib, volumes });
    assert.equal(availableBytes, 34n * gib);
  });

  test('the trash counts as available', () => {
    assert.equal(computeCapacity({ ...use, reclaimableBytes: 5n * gib }).availableBytes, 94n * gib);
  });

  test('volumes being made count as made', () => {
    assert.equal(computeCapacity({ ...use, reservedBytes: 10n * gib }).availableBytes, 79n * gib);
  });

  test('L11: never negative, also when others filled the disk', () => {
    const volumes = [{ sizeBytes: 50n * gib, allocatedBytes: 0n, isSharing: false }];
    const { availableBytes } = computeCapacity({ ...use, freeBytes: 2n * gib, volumes });
    assert.equal(availableBytes, 0n);
  });

  test('overcommit adds a share of the total', () => {
    const { availableBytes, totalBytes } = computeCapacity({ ...use, overcommit: 1.5 });
    assert.equal(availableBytes, 89n * gib + totalBytes / 2n);
  });

  test('the default reserve is 2 % within bounds', () => {
    assert.equal(defaultReserveBytes(10n * gib), (10n * gib) / 50n);
    assert.equal(defaultReserveBytes(1000n * gib), gib);
    assert.equal(defaultReserveBytes(100n << 20n), 16n << 20n);
  });

  test('a sparse backing file is no larger than what its host has left', () => {
    const inside = { freeBytes: 9n * gib, backingSizeBytes: 10n * gib, backingAllocatedBytes: 0n };
    assert.equal(freeInBackingFile({ ...inside, hostFreeBytes: 50n * gib }), 9n * gib);
    assert.equal(freeInBackingFile({ ...inside, hostFreeBytes: 4n * gib }), 3n * gib);
    assert.equal(freeInBackingFile({ ...inside, hostFreeBytes: 0n }), 0n);
  });
});
