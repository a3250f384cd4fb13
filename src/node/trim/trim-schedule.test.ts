import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { TrimSchedule } from './trim-schedule.ts';

const minuteMs = 60_000;
const dayMs = 1440 * minuteMs;
const startMs = 5000;

const daily = { name: 'daily', trimming: 'daily' } as const;
const weekly = { name: 'weekly', trimming: 'weekly' } as const;
const off = { name: 'off', trimming: 'off' } as const;

const schedule = (random = 0.5) => new TrimSchedule({ startMs, random: () => random });

describe('when pools are trimmed', () => {
  test('for the first time between 10 minutes and an hour after the start, also weekly', () => {
    for (const [random, minutes] of [
      [0, 10],
      [0.999999, 60],
    ] as const) {
      assert.equal(schedule(random).take([weekly], startMs + (minutes - 1) * minuteMs), undefined);
      assert.equal(schedule(random).take([weekly], startMs + minutes * minuteMs), weekly);
    }
  });

  test('then once in each interval, give or take a twentieth', () => {
    for (const [pool, days] of [
      [daily, 1],
      [weekly, 7],
    ] as const) {
      for (const [random, factor] of [
        [0, 0.95],
        [0.999999, 1.05],
      ] as const) {
        const plan = schedule(random);
        const firstMs = startMs + 60 * minuteMs;
        assert.equal(plan.take([pool], firstMs), pool);
        assert.equal(plan.take([pool], firstMs), undefined);
        const nextMs = firstMs + days * factor * dayMs;
        assert.equal(plan.take([pool], nextMs - minuteMs), undefined);
        assert.equal(plan.take([pool], nextMs), pool);
      }
    }
  });

  test('one after another, the one that has waited longest first', () => {
    const plan = schedule();
    const pools = [weekly, daily];
    const firstMs = startMs + 60 * minuteMs;
    assert.equal(plan.take(pools, firstMs), weekly);
    assert.equal(plan.take(pools, firstMs), daily);
    assert.equal(plan.take(pools, firstMs), undefined);
    assert.equal(plan.take(pools, firstMs + 8 * dayMs), daily);
    assert.equal(plan.take(pools, firstMs + 8 * dayMs), weekly);
    assert.equal(plan.take(pools, firstMs + 8 * dayMs), undefined);
  });

  test('a pool that is not open when its time comes is due when it is', () => {
    const plan = schedule();
    const firstMs = startMs + 60 * minuteMs;
    assert.equal(plan.take([], firstMs), undefined);
    assert.equal(plan.take([weekly], firstMs + 3 * dayMs), weekly);
  });

  test('never where it is off', () => {
    assert.equal(schedule().take([off], startMs + 1000 * dayMs), undefined);
  });
});
