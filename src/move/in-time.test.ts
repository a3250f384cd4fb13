import assert from 'node:assert/strict';
import { test } from 'node:test';
import { deadlineOf, isLate } from './in-time.ts';

test('an order is late once either clock says so, also if the one of the node is put back', (t) => {
  let monotonicMs = 1_000;
  t.mock.method(performance, 'now', () => monotonicMs);
  t.mock.timers.enable({ apis: ['Date'], now: 10_000_000 });
  const deadline = deadlineOf(new Date(10_025_000));
  assert.equal(isLate(deadline), false);
  t.mock.timers.setTime(10_025_000);
  assert.equal(isLate(deadline), true);
  t.mock.timers.setTime(6_400_000);
  assert.equal(isLate(deadline), false);
  monotonicMs = 26_000;
  assert.equal(isLate(deadline), true);
  assert.equal(isLate(deadlineOf(undefined)), false);
});
