import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { KeepUp } from './keep-up.ts';

const shortBytes = 64n << 20n;
const minuteMs = 60_000;

/** The minutes until each round, of a volume that is written to at a constant rate. */
function distances(bytesPerMinute: bigint, rounds: number): number[] {
  let nowMs = 1_000;
  const keepUp = new KeepUp(nowMs, shortBytes);
  return Array.from({ length: rounds }, () => {
    let minutes = 0;
    while (!keepUp.isDue(nowMs)) {
      assert.equal(keepUp.isWorth(nowMs), minutes > 0);
      nowMs += minuteMs;
      minutes++;
    }
    keepUp.copied(nowMs, bytesPerMinute * BigInt(minutes));
    return minutes;
  });
}

describe('the rounds of a volume that stays in use', () => {
  test('come at twice the distance each time, up to an hour, if little is written', () => {
    assert.deepEqual(distances(1n << 10n, 9), [1, 2, 4, 8, 16, 32, 60, 60, 60]);
  });

  test('come so often that each is about a short one, if more is written', () => {
    assert.deepEqual(distances(4n << 20n, 7), [1, 2, 4, 8, 16, 8, 16]);
  });

  test('come each minute if much is written', () => {
    assert.deepEqual(distances(100n << 20n, 4), [1, 1, 1, 1]);
  });
});
