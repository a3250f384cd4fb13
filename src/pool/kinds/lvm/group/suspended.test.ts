import assert from 'node:assert/strict';
import { test } from 'node:test';
import { lowestFirst } from './suspended.ts';

const device = (minor: number) => ({ major: 254, minor });

test('a device comes after all that it is made of', () => {
  const made = (minor: number, ...backing: readonly number[]) => ({
    device: device(minor),
    backing: [...backing.map(device), { major: 8, minor: 0 }],
  });
  // A thin volume over its pool, which is made of two; and one beside them.
  const all = [made(5, 3), made(3, 1, 2), made(2), made(7), made(1)];
  assert.deepEqual(
    lowestFirst(all).map((each) => each.device.minor),
    [1, 2, 3, 5, 7],
  );
});
