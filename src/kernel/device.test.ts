import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { deviceNumber, packedNumber, sameDevice } from './device.ts';

test('a packed device number comes apart as it was put together', () => {
  const number = fc.integer({ min: 0, max: 0xffffffff });
  fc.assert(
    fc.property(number, number, (major, minor) => {
      assert.deepEqual(deviceNumber(packedNumber({ major, minor })), { major, minor });
    }),
  );
});

test('a device number is packed as the kernel packs it', () => {
  // new_encode_dev: minor 0x123 of major 253, as stat(2) shows it.
  assert.equal(packedNumber({ major: 253, minor: 0x123 }), 0x10fd23n);
  assert.equal(packedNumber({ major: 0x1001, minor: 5 }), 0x100000000105n);
});

test('a missing device is the same as nothing, not even as another missing one', () => {
  assert.equal(sameDevice({ major: 7, minor: 1 }, { major: 7, minor: 1 }), true);
  assert.equal(sameDevice({ major: 7, minor: 1 }, { major: 7, minor: 2 }), false);
  assert.equal(sameDevice(undefined, undefined), false);
});
