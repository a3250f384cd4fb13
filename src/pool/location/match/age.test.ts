import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isLongThere } from './age.ts';

test('DK12: a blank disk is taken when it has been there for a minute, by what was seen or by its device', () => {
  const is = (seenMs: number, deviceMs?: number) => isLongThere({ seenMs, deviceMs });
  assert.deepEqual([is(0, 5_000), is(59_999, 59_999), is(59_999), is(0)], [false, false, false, false]);
  // There before the driver started; a clock that was set back.
  assert.deepEqual([is(2_000, 3_600_000), is(60_000, -3_600_000), is(60_000)], [true, true, true]);
});
