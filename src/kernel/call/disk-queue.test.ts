import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { DiskQueue, SharedPlaces } from './disk-queue.ts';

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

  test('queues that share places run no more than these, and all of it', async () => {
    const jobs = fc.array(fc.nat(4), { maxLength: 40 });
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: 5 }), fc.nat(3), jobs, async (count, kept, ofQueues) => {
        const places = new SharedPlaces(count, Math.min(kept, count - 1));
        const queues = [1, 2, 3, 1, 2].map((limit, index) => new DiskQueue(`${index}`, limit, places));
        let running = 0;
        const work = async () => {
          running++;
          assert.ok(running <= count);
          await new Promise(setImmediate);
          running--;
        };
        await Promise.all(ofQueues.map((index) => queues[index]?.run(work)));
        assert.deepEqual(
          queues.map((queue) => queue.waiting + queue.running),
          [0, 0, 0, 0, 0],
        );
      }),
      { numRuns: 50 },
    );
  });

  test('a job of a closed queue keeps the place that it shares until it ends', async () => {
    const places = new SharedPlaces(1, 0);
    const sick = new DiskQueue('sick', 1, places);
    const well = new DiskQueue('well', 1, places);
    const { promise, resolve } = Promise.withResolvers<void>();
    const given = assert.rejects(sick.run(() => promise));
    sick.close(new Error('given up'));
    await given;
    const waiting = well.run(async () => 'ran');
    assert.equal(well.waiting, 1);
    assert.notEqual(well.starvedSinceMs, undefined);
    resolve();
    assert.equal(await waiting, 'ran');
    assert.equal(well.starvedSinceMs, undefined);
  });

  test('urgent jobs wait for no place that others share', { timeout: 20_000 }, async () => {
    const places = new SharedPlaces(1, 0);
    const { promise, resolve } = Promise.withResolvers<void>();
    const queue = new DiskQueue('hangs', 1, places);
    const running = queue.run(() => promise);
    assert.equal(await queue.beside('thaw', 1, true).run(async () => 'thawed'), 'thawed');
    resolve();
    await running;
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
