import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { formatDuration, parseDuration } from './duration.ts';
import { InvalidArgument } from './errors.ts';

describe('durations', () => {
  test('are read and written', () => {
    assert.equal(parseDuration('24h'), 86_400);
    assert.equal(parseDuration('0'), 0);
    assert.equal(formatDuration(86_400), '1d');
    assert.equal(formatDuration(90), '90s');
  });

  test('come back as they were', () => {
    fc.assert(
      fc.property(fc.nat({ max: 3650 * 86_400 }), (seconds) => {
        assert.equal(parseDuration(formatDuration(seconds)), seconds);
      }),
    );
  });

  for (const text of ['', '24', '-1h', '1.5h', '24 h', '1w', '999999999d', 'h']) {
    test(`'${text}' is refused`, () => assert.throws(() => parseDuration(text), InvalidArgument));
  }
});
