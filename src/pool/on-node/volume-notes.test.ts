import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { parseHandle } from '../../volume/handle.ts';
import { parseNote, serializeNote, type VolumeNote } from './volume-notes.ts';

const handles = fc
  .string({ minLength: 1, maxLength: 40, unit: 'grapheme' })
  .map((text) => parseHandle(text))
  .filter((handle) => handle !== undefined);

/** No kind has the key __proto__, so no context with it gets as far as a note. */
const keys = fc.string({ minLength: 1 }).filter((key) => key !== '__proto__');

const notes: fc.Arbitrary<VolumeNote> = fc.record({
  kind: fc.string(),
  volume: fc.record(
    {
      handle: handles,
      content: fc.constantFrom({ type: 'directory' } as const, { type: 'mount', fsType: 'xfs' } as const),
      provisioning: fc.constant('thin' as const),
      context: fc.dictionary(keys, fc.string(), { noNullPrototype: true }),
      sizeBytes: fc.bigInt({ min: 0n, max: 1n << 62n }),
    },
    { requiredKeys: ['handle', 'content', 'provisioning', 'context'] },
  ),
  paths: fc.array(fc.string()),
});

test('a note is read as it was written', () => {
  fc.assert(
    fc.property(notes, (note) => {
      const parsed = parseNote(serializeNote(note));
      assert.ok('data' in parsed);
      assert.equal(serializeNote(parsed.data), serializeNote(note));
    }),
  );
});

test('what is no whole note is refused in words', () => {
  const whole = serializeNote({
    kind: 'a',
    volume: {
      handle: parseHandle('h') ?? assert.fail(),
      content: { type: 'block' },
      provisioning: 'thin',
      context: {},
    },
    paths: [],
  });
  for (const text of [
    '',
    whole.slice(0, -3),
    whole.replace('"h"', '"a\\nb"'),
    whole.replace('"format": 1', '"format": 2'),
  ]) {
    assert.ok('mistakes' in parseNote(text), text);
  }
});
