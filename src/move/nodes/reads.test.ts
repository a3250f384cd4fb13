import assert from 'node:assert/strict';
import { once } from 'node:events';
import { describe, test } from 'node:test';
import { volumeIdFor } from '../../volume/id.ts';
import { Reads } from './reads.ts';

const id = volumeIdFor('node', 'pool', 'name');

describe('the streams of a volume', () => {
  test('have closed all when their end has its answer', async () => {
    const reads = new Reads();
    const events: string[] = [];
    const reading = reads.during(id, { moveId: 'a', isFenced: false }, async (ended) => {
      await once(ended, 'abort');
      for (let turn = 0; turn < 100; turn++) await new Promise(setImmediate);
      events.push('closed');
    });
    await reads.end(id);
    events.push('ended');
    await reading;
    assert.deepEqual(events, ['closed', 'ended']);
    await reads.end(id);
  });

  test('end alone that are meant', async () => {
    const reads = new Reads();
    const signals: AbortSignal[] = [];
    const all = [true, false].map((isFenced) =>
      reads.during(id, { moveId: 'a', isFenced }, async (ended) => {
        signals.push(ended);
        await once(ended, 'abort');
      }),
    );
    await reads.end(id, ({ isFenced }) => isFenced);
    assert.deepEqual(
      signals.map(({ aborted }) => aborted),
      [true, false],
    );
    reads.stop(id, ({ moveId }) => moveId === 'b');
    assert.deepEqual(
      signals.map(({ aborted }) => aborted),
      [true, false],
    );
    reads.stop(id);
    await Promise.all(all);
  });
});
