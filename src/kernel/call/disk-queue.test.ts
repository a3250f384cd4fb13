import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { DiskQueue } from './disk-queue.ts';

describe('DiskQueue', () => {
  test('runs no more than its share at a time, in the order of arrival, and all of it', async () => {
    const jobs = fc.array(fc.boolean(), { maxLength: 40 });
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: 5 }), jobs, async (limit, failures) => {
        const queue = new DiskQueue('test', limit);
        const started: number[] = [];
        let running = 0;
        const results = failures.map((fails, index) =>
          queue.run(async () => {
            started.push(index);
            running++;
            assert.ok(running <= limit);
            await new Promise(setImmediate);
            running--;
            if (fails) throw new Error(`job ${index}`);
            return index;
          }),
        );
        const outcomes = await Promise.allSettled(results);
        assert.deepEqual(
          outcomes.map(({ status }) => status === 'rejected'),
          failures,
        );
        assert.deepEqual(started, [...failures.keys()]);
        assert.equal(queue.running, 0);
        assert.equal(queue.waiting, 0);
      }),
      { numRuns: 30 },
    );
  });

  test('a queue that is stuck holds up nobody in another queue', async () => {
    const sick = new DiskQueue('sick', 1);
    const well = new DiskQueue('well', 1);
    let recover = () => {};
    const stuck = sick.run(() => new Promise<void>((resolve) => (recover = resolve)));
    const queued = sick.run(async () => 'late');
    assert.equal(await well.run(async () => 'soon'), 'soon');
    assert.deepEqual([sick.running, sick.waiting], [1, 1]);
    recover();
    await stuck;
    assert.equal(await queued, 'late');
  });

  test('a queue without a place is refused', () => {
    assert.throws(() => new DiskQueue('test', 0), RangeError);
    assert.throws(() => new DiskQueue('test', 1.5), RangeError);
  });
});
