import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { deviceNumber, sameDevice } from './device.ts';

/** gnu_dev_makedev of glibc (bits/sysmacros.h). */
function makedev(major: number, minor: number): bigint {
  const high = ((BigInt(major) & 0xfffff000n) << 32n) | ((BigInt(minor) & 0xffffff00n) << 12n);
  return high | ((BigInt(major) & 0xfffn) << 8n) | (BigInt(minor) & 0xffn);
}

test('a packed device number comes apart as it was put together', () => {
  const number = fc.integer({ min: 0, max: 0xffffffff });
  fc.assert(
    fc.property(number, number, (major, minor) => {
      assert.deepEqual(deviceNumber(makedev(major, minor)), { major, minor });
    }),
  );
});

test('a missing device is the same as nothing, not even as another missing one', () => {
  assert.equal(sameDevice({ major: 7, minor: 1 }, { major: 7, minor: 1 }), true);
  assert.equal(sameDevice({ major: 7, minor: 1 }, { major: 7, minor: 2 }), false);
  assert.equal(sameDevice(undefined, undefined), false);
});
