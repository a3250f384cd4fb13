import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { finishAll, finishAllOrStop } from './finish-all.ts';

describe('finishAll', () => {
  test('answers in order', async () => {
    const works = [setImmediate(1), Promise.resolve(2)];
    assert.deepEqual(await finishAll(works), [1, 2]);
  });

  test('fails when all have ended, not before', async () => {
    const done: string[] = [];
    const slow = async () => {
      for (let turn = 0; turn < 5; turn++) await setImmediate();
      done.push('slow');
    };
    await assert.rejects(finishAll([Promise.reject(new Error('first')), slow()]), /first/);
    assert.deepEqual(done, ['slow']);
  });
});

describe('finishAllOrStop', () => {
  const untilStopped = async (signal: AbortSignal) => {
    while (!signal.aborted) await setImmediate();
    throw signal.reason;
  };

  test('the others are told to stop, and waited for; the failure is that of the one that failed', async () => {
    const works = finishAllOrStop(['others', 'fails'], undefined, async (item, signal) => {
      if (item === 'fails') throw new Error('the reason');
      await untilStopped(signal);
    });
    await assert.rejects(works, /the reason/);
  });

  test('all stop when they are told from outside', async () => {
    const outside = new AbortController();
    const works = finishAllOrStop([1, 2], outside.signal, (_, signal) => untilStopped(signal));
    outside.abort(new Error('too late'));
    await assert.rejects(works, /too late/);
  });
});
