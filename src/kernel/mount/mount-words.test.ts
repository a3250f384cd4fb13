import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { safeWords } from './mount-words.ts';

describe('safeWords', () => {
  test('keeps errors and warnings, without their marks, and leaves out information', () => {
    assert.equal(safeWords(['e ext4: first\n', 'i ext4: chatter', 'w xfs: second'], []), 'ext4: first; xfs: second');
    assert.equal(safeWords(['i ext4: chatter'], []), undefined);
    assert.equal(safeWords([], ['x']), undefined);
  });

  test('X02: leaves out what is quoted, what was given, and parts of it', () => {
    assert.equal(safeWords(["e ext4: Unknown parameter 'bogus'"], ['bogus']), "ext4: Unknown parameter '…'");
    assert.equal(safeWords(["e x: Bad value for 'a'b'"], []), "x: Bad value for '…'");
    assert.equal(
      safeWords(['e btrfs: unrecognized compression value secret'], ['compression', 'zstd:secret']),
      'btrfs: unrecognized … value …',
    );
  });

  test('X02: a number may be the given one written differently, so it goes too', () => {
    assert.equal(safeWords(['e ext4: commit 255 is too large'], ['commit', '0xff']), 'ext4: … … is too large');
    assert.equal(safeWords(['e ext4: 3 of 4'], ['data']), 'ext4: 3 of 4');
  });

  test('X02: no option survives, wherever the kernel repeats it', () => {
    const option = fc.string({ minLength: 2, maxLength: 30 }).filter((text) => text.trim() !== '');
    fc.assert(
      fc.property(
        fc.array(option, { minLength: 1, maxLength: 4 }),
        fc.string(),
        fc.string(),
        (options, before, after) => {
          for (const secret of options) {
            // One message at a time: a secret of ours, such as "; ", cannot be distinguished from the text that
            // joins two of them.
            for (const message of [`e ${before}${secret}${after}`, `e fs: bad value ${secret}`]) {
              const words = safeWords([message], options) ?? '';
              assert.ok(!words.includes(secret), words);
            }
          }
        },
      ),
      { numRuns: 2000 },
    );
  });

  test('X02: nor does a part of one where two overlap, or one that ends in a space or is all punctuation', () => {
    assert.equal(safeWords(['e x: xabcdefx'], ['abcd', 'cdef']), 'x: x…x');
    assert.equal(safeWords(['e bad value ;; '], [';; ']), 'bad value …');
    assert.equal(safeWords(['e bad "password"!'], ["d '"]), 'bad "…"!');
  });
});
