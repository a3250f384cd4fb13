import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { lostGroup, missingGroup, noRoomForThinPool } from './trouble.ts';

const [mebibyte, gibibyte] = [1n << 20n, 1n << 30n];

describe('a thin pool that has no room in its group', () => {
  const groupWith = (freeBytes: bigint) => ({ poolName: 'thin', name: 'vgthin', freeBytes });
  const thinPool = { sizeBytes: 500n * gibibyte, metadataBytes: 2n * gibibyte };

  test('what it takes is told part by part', () => {
    assert.equal(
      noRoomForThinPool(groupWith(2n * gibibyte), thinPool).message,
      'pool thin: its thinPool takes 504Gi (size 500Gi, and twice 2Gi of metadata), and volume group vgthin has 2Gi free: write a smaller thinPool.size, or extend the group (vgextend).',
    );
  });

  test('sizes that would read the same are told exactly', () => {
    assert.match(
      noRoomForThinPool(groupWith(504n * gibibyte - 4n * mebibyte), thinPool).message,
      /takes 504Gi \(size 500Gi, and twice 2Gi of metadata\), and volume group vgthin has 516092Mi free/,
    );
  });
});

describe('a volume group that is not there', () => {
  test('can be made, unless the driver has made it before', () => {
    assert.equal(
      missingGroup('fast', 'vg0').message,
      'pool fast: there is no volume group vg0 on this node (see vgs). Bring its disks back, correct volumeGroup, or make it (vgcreate vg0 DISK).',
    );
    assert.doesNotMatch(lostGroup('fast', 'holdfast-fast').message, /vgcreate/);
  });
});
