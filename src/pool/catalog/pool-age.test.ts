import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { ageWhenOpened, longestPauseMs, parseAge } from './pool-age.ts';

const noted = { ageMs: 5_000, atMs: 1_000_000 };

describe('the age of a pool', () => {
  test('a short pause counts', () => {
    assert.equal(ageWhenOpened(noted, 1_000_000 + 60_000, 0), 65_000);
  });

  test('a long one, or a clock that is ahead, counts for an hour', () => {
    assert.equal(ageWhenOpened(noted, 1_000_000 + 365 * 86_400_000, 0), 5_000 + longestPauseMs);
  });

  test('a clock that went back counts for nothing', () => {
    assert.equal(ageWhenOpened(noted, 0, 0), 5_000);
  });

  test('without a note it is what is known from what lies in the pool', () => {
    assert.equal(ageWhenOpened(undefined, 1_000_000, 7_000), 7_000);
    assert.equal(ageWhenOpened(noted, 1_000_000, 7_000), 7_000);
  });

  test('half a note is none', () => {
    assert.deepEqual(parseAge(`${'5000'.padStart(15)} 1970-01-01T00:16:40.000Z\n`), noted);
    for (const text of [
      '',
      '\0'.repeat(41),
      '5000',
      `${'5000'.padStart(15)} 1970-01-01T00:16`,
      ' 5000 not-a-time-at-all-really-x\n',
    ]) {
      assert.equal(parseAge(text), undefined);
    }
  });
});
