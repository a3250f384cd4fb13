import assert from 'node:assert/strict';
import { test } from 'node:test';
import { queueSizes, wantedThreads } from './threads.ts';

test('with enough threads every queue has what it wants', () => {
  assert.deepEqual(queueSizes(wantedThreads(3), 3), { pool: 8, kubelet: 4, server: 4 });
  assert.deepEqual(queueSizes(wantedThreads(3) + 50, 3), { pool: 8, kubelet: 4, server: 4 });
});

test('each server has its own, beside those of the pools', () => {
  assert.equal(wantedThreads(1, 3) - wantedThreads(1), 12);
  for (let threads = 8; threads < 40; threads++) {
    const { kubelet, pool, server } = queueSizes(threads, 1, 5);
    assert.ok(server >= 1 && pool + kubelet + 5 * server < threads, `${threads} threads`);
  }
});

test('design 3.7: with fewer threads all queues together still leave one free', () => {
  for (let threads = 3; threads < 40; threads++) {
    for (let pools = 1; pools < threads - 1; pools++) {
      const { pool, kubelet } = queueSizes(threads, pools);
      assert.ok(pool >= 1 && kubelet >= 1);
      assert.ok(pool * pools + kubelet < threads, `${threads} threads, ${pools} pools`);
    }
  }
});
