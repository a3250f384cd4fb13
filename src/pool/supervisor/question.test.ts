import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Question } from './question.ts';

test('H23: each disk that a health check waits for has all of the time, and the one that does not answer is named', () => {
  let nowMs = 1000;
  const question = new Question(() => nowMs);
  const after = (ms: number) => {
    nowMs += ms;
    return question.silentFor(20);
  };
  assert.equal(after(19), undefined);
  assert.equal(after(1), 'its disk');
  // Ten that are slow, one after another.
  for (let disk = 0; disk < 10; disk++) {
    const answered = question.waitsFor(`its disk /dev/sd${disk}`);
    assert.equal(after(15), undefined);
    answered();
  }
  const a = question.waitsFor('its disk /dev/sda');
  assert.equal(after(15), undefined);
  const b = question.waitsFor('its disk /dev/sdb');
  assert.equal(after(5), 'its disk /dev/sda');
  a();
  assert.equal(after(14), undefined);
  assert.equal(after(1), 'its disk /dev/sdb');
  b();
  assert.equal(after(19), undefined);
  assert.equal(after(1), 'its disk');
});
