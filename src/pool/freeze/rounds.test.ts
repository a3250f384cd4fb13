import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { repeatWhileItHelps } from './rounds.ts';

/** Rounds that take so long, one after the other; the last ones as long as the last named. */
async function rounds(...tookMs: number[]): Promise<{ readonly count: number; readonly lastMs: number }> {
  let clockMs = 0;
  let count = 0;
  const round = async () => {
    clockMs += tookMs[Math.min(count, tookMs.length - 1)] ?? 0;
    count++;
  };
  const lastMs = await repeatWhileItHelps(round, { enoughMs: 500, atMost: 8, now: () => clockMs });
  return { count, lastMs };
}

describe('rounds before a freeze', () => {
  test('one is enough if it has little to do', async () => {
    assert.deepEqual(await rounds(400), { count: 1, lastMs: 400 });
  });

  test('what somebody writes meanwhile becomes less with each', async () => {
    assert.deepEqual(await rounds(16_000, 8000, 4000, 2000, 1000, 500), { count: 6, lastMs: 500 });
  });

  test('beside somebody who writes as fast as the disk they come to an end', async () => {
    assert.deepEqual(await rounds(16_000), { count: 2, lastMs: 16_000 });
    assert.deepEqual(await rounds(16_000, 8000, 7500), { count: 3, lastMs: 7500 });
  });

  test('and also if each helps a little', async () => {
    const shorter = Array.from({ length: 20 }, (_, index) => 60_000 * 0.79 ** index);
    assert.equal((await rounds(...shorter)).count, 8);
  });
});
