import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { fewAtOnce } from './few-at-once.ts';

describe('work on many items', () => {
  test('is done a few at a time, in order, with the results in their places', async () => {
    const items = Array.from({ length: 500 }, (_, index) => index);
    const begun: number[] = [];
    let [running, peak] = [0, 0];
    const results = await fewAtOnce(items, async (item) => {
      begun.push(item);
      peak = Math.max(peak, ++running);
      await new Promise(setImmediate);
      running--;
      return -item;
    });
    assert.deepEqual(begun, items);
    assert.deepEqual(
      results,
      items.map((item) => -item),
    );
    assert.ok(peak > 1 && peak <= 64, `${peak} at a time`);
    assert.deepEqual(await fewAtOnce([], assert.fail), []);
  });

  test('begins no more after a failure', async () => {
    const items = Array.from({ length: 500 }, (_, index) => index);
    const failure = new Error('the third');
    let begun = 0;
    const working = fewAtOnce(items, async (item) => {
      begun++;
      await new Promise(setImmediate);
      if (item === 3) throw failure;
    });
    await assert.rejects(working, failure);
    await new Promise(setImmediate);
    assert.ok(begun < items.length, `${begun} of ${items.length} were begun`);
  });

  test('lets the others of this thread have their turn, though nothing of it waits', async () => {
    let turns = 0;
    const ticking = setInterval(() => turns++, 1);
    await fewAtOnce(Array.from({ length: 50 }), async () => {
      const untilMs = performance.now() + 1;
      while (performance.now() < untilMs);
    });
    clearInterval(ticking);
    assert.ok(turns > 0);
  });
});
