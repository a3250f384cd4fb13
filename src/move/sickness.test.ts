import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Sickness } from './sickness.ts';

const minuteMs = 60_000;

describe('a move that fails again and again', () => {
  test('has failed for too long after a minute, and then once more after another one', () => {
    const sickness = new Sickness(minuteMs);
    const failed = Array.from({ length: 9 }, (_, index) => sickness.failed(index * 20_000, 0n, false));
    assert.deepEqual(failed, [false, false, false, true, false, false, false, true, false]);
  });

  test('has not, if it has copied for long in between', () => {
    const sickness = new Sickness(minuteMs);
    assert.equal(sickness.failed(1_000, 5n, false), false);
    assert.equal(sickness.failed(60 * minuteMs, 900n, false), false);
    assert.equal(sickness.failed(60 * minuteMs + 30_000, 900n, false), false);
    assert.equal(sickness.failed(61 * minuteMs, 900n, false), true);
  });

  test('has, if it copies a little each time, or nothing for long', () => {
    for (const [everyMs, bytes] of [
      [20_000, 1n],
      [2 * minuteMs, 0n],
    ] as const) {
      const sickness = new Sickness(minuteMs);
      const failed = Array.from({ length: 4 }, (_, index) =>
        sickness.failed(index * everyMs, BigInt(index) * bytes, false),
      );
      assert.ok(failed.includes(true));
    }
  });

  test('has not, if the copy of a tree comes further each time', () => {
    const sickness = new Sickness(minuteMs);
    const failed = Array.from({ length: 9 }, (_, index) => sickness.failed(index * 20_000, 0n, true));
    assert.ok(!failed.includes(true));
    assert.equal(sickness.failed(10 * 20_000, 0n, false), false);
    assert.equal(sickness.failed(11 * 20_000, 0n, false), true);
  });

  test('has not, if the volume could not be used until now', () => {
    const sickness = new Sickness(minuteMs);
    assert.equal(sickness.failed(0, 0n, false), false);
    sickness.restart();
    assert.equal(sickness.failed(2 * minuteMs, 0n, false), false);
    assert.equal(sickness.failed(3 * minuteMs, 0n, false), true);
  });

  test('without any time has failed at once', () => {
    assert.equal(new Sickness(0).failed(5, 0n, false), true);
  });
});
