import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LastReasons } from './last-reasons.ts';

test('a reason is reported once, until there is another one, or none', () => {
  const reasons = new LastReasons();
  const reported = (reason: string) => reasons.isNew('a', reason);
  assert.deepEqual(['full', 'full', 'sick', 'full'].map(reported), [true, false, true, true]);
  assert.equal(reasons.isNew('b', 'full'), true);
  reasons.forget('a');
  assert.deepEqual(['full', 'full'].map(reported), [true, false]);
  assert.equal(reasons.isNew('b', 'full'), false);
});
