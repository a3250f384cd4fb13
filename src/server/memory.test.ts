import assert from 'node:assert/strict';
import { PerformanceObserver } from 'node:perf_hooks';
import { test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { getHeapSpaceStatistics } from 'node:v8';
import { collectGarbage, limitHeap, whenIdle } from './memory.ts';

test('work is done once each time that the activity rests', async () => {
  let activity = 0;
  let worked = 0;
  const rests: (() => void)[] = [];
  const rest = () => new Promise<void>((resolve) => rests.push(resolve));
  whenIdle(
    () => activity,
    1,
    () => {
      worked++;
      for (const wake of rests.splice(0)) wake();
    },
  );
  // Its own timer keeps no process alive.
  const alive = setInterval(() => undefined, 1000);
  await rest();
  assert.equal(worked, 1);
  activity++;
  await rest();
  assert.equal(worked, 2);
  clearInterval(alive);
});

test('garbage can be collected', () => {
  collectGarbage();
});

test('the young generation stays small, however much of it survives', async () => {
  limitHeap();
  let collections = 0;
  const observer = new PerformanceObserver((list) => {
    collections += list.getEntries().length;
  });
  observer.observe({ entryTypes: ['gc'] });
  const alive: object[] = [];
  while (collections < 40) {
    for (let count = 0; count < 2_000; count++) alive.push({ count, more: [count, count] });
    // Two thirds survive a collection: without a limit V8 lets the young generation grow to its maximum.
    if (alive.length > 60_000) alive.splice(0, 40_000);
    await nextTurn();
  }
  observer.disconnect();
  const young = getHeapSpaceStatistics().find(({ space_name }) => space_name === 'new_space');
  const halfBytes = (young?.space_used_size ?? 0) + (young?.space_available_size ?? 0);
  assert.ok(halfBytes <= 4 * 2 ** 20, `${halfBytes} bytes`);
});
