import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import fc from 'fast-check';
import { z } from 'zod';
import { inOneSentence, parseInput, parseJsonInput } from './parse-input.ts';
import { parseRecord } from './record.ts';
import { parseGroup, parseSnapshot } from './snapshot-record.ts';

const schema = z.strictObject({
  format: z.literal(1),
  name: z.string(),
  kind: z.enum(['thin', 'thick']),
  count: z.int().positive().optional(),
  at: z.iso.datetime(),
  content: z.discriminatedUnion('type', [
    z.strictObject({ type: z.literal('block') }),
    z.strictObject({ type: z.literal('mount'), fsType: z.string() }),
  ]),
  list: z.array(z.string()).optional(),
  pairs: z.record(z.string(), z.string()).optional(),
});

const right = { format: 1, name: 'n', kind: 'thin', at: '2026-01-31T12:00:00Z', content: { type: 'block' } };

/** Words of the library's own sentences. */
const foreignWords = /Invalid|Unrecognized|Too (big|small)|expected|received|✖|→/;

describe('parseInput', () => {
  test('what fits is what was meant', () => {
    assert.deepEqual(parseInput(schema, right), { data: right });
    assert.deepEqual(parseJsonInput(schema, JSON.stringify(right)), { data: right });
  });

  for (const [what, change, expected] of [
    ['another version', { format: 2 }, 'format: must be 1, not 2'],
    ['a missing key', { name: undefined }, 'name: is missing'],
    ['another kind of value', { name: 7 }, 'name: must be text, not 7'],
    ['a word that is none', { kind: 'fat' }, "kind: must be one of thin, thick, not 'fat'"],
    ['too small a number', { count: 0 }, 'count: must be more than 0, not 0'],
    ['a fraction', { count: 1.5 }, 'count: must be a whole number, not 1.5'],
    ['no time', { at: 'noon' }, "at: must be a time such as 2026-01-31T12:00:00Z, not 'noon'"],
    ['a kind of content that is none', { content: { type: 'tape' } }, "content.type: cannot be 'tape'"],
    ['an unknown key', { colour: 'red' }, "has unknown keys: 'colour'"],
    ['a list of other things', { list: ['a', 1] }, 'list.1: must be text, not 1'],
    ['other pairs', { pairs: { a: null } }, 'pairs.a: must be text, not null'],
  ] as const) {
    test(`${what} is told in our words, with its place`, () => {
      assert.deepEqual(parseInput(schema, { ...right, ...change }), { mistakes: [expected] });
    });
  }

  test('what is cut short is no JSON', () => {
    assert.deepEqual(parseJsonInput(schema, '{"format": 1'), { mistakes: ['it is no JSON, or not all of it'] });
  });

  test('many mistakes make one sentence, and no long one', () => {
    assert.equal(inOneSentence(['a', 'b']), 'a; b');
    assert.equal(inOneSentence(['a', 'b', 'c', 'd']), 'a; b; and 2 more');
  });

  test('whatever it is, it is told in our words', () => {
    fc.assert(
      fc.property(
        fc.anything(),
        fc.dictionary(fc.constantFrom(...Object.keys(right)), fc.anything()),
        (other, change) => {
          for (const input of [other, { ...right, ...change }]) {
            const parsed = parseInput(schema, input);
            if ('data' in parsed) continue;
            assert.ok(parsed.mistakes.length > 0);
            // The input is quoted, and may be anything.
            for (const mistake of parsed.mistakes)
              assert.match(mistake, /must be |is missing|cannot be |has unknown keys/);
          }
        },
      ),
    );
  });
});

test('of records, whatever they hold, a file is named, and what is wrong in one line of our words', () => {
  fc.assert(
    fc.property(fc.oneof(fc.json(), fc.constantFrom('', '{', '{}', '{"format":2}')), (text) => {
      for (const parse of [parseRecord, parseSnapshot, parseGroup]) {
        assert.throws(
          () => parse(text, '/pool/x.json'),
          ({ message }: Error) => {
            assert.match(message, /^The record \/pool\/x\.json cannot be read \(.*\)\. Its data is left as it is\.$/s);
            return text.length > 20 || !foreignWords.test(message);
          },
        );
      }
    }),
  );
});

test('nobody else holds anything against a schema', () => {
  const source = fileURLToPath(new URL('..', import.meta.url));
  const files = readdirSync(source, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.ts'));
  const others = files
    .filter((name) => !name.endsWith('.test.ts') && name !== join('volume', 'parse-input.ts'))
    .filter((name) =>
      /\.safeParse\(|prettifyError|z\.\w+\(.*\)\.parse\(|ZodError/.test(readFileSync(join(source, name), 'utf8')),
    );
  assert.deepEqual(others, []);
});
