import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { InvalidArgument } from '../../../volume/errors.ts';
import { Secrets } from '../../../volume/secrets.ts';
import { parseKeys } from './key.ts';

const random = Buffer.alloc(32, 0xa5);
const key = random.toString('base64');
const parse = (values: Record<string, string>) => parseKeys(new Secrets(values));

describe('the keys in a secret', () => {
  test('a key is Base64, and used as the bytes that it means', () => {
    const keys = parse({ key: `${key}\n` });
    assert.deepEqual(keys?.current, { bytes: random, isRandom: true });
    assert.equal(keys?.previous, undefined);
  });

  test('a passphrase is its own bytes, and not random', () => {
    assert.deepEqual(parse({ passphrase: 'grüße aus 1984' })?.current, {
      bytes: Buffer.from('grüße aus 1984'),
      isRandom: false,
    });
  });

  test('the key before can be of either kind', () => {
    assert.equal(parse({ key, previousPassphrase: 'what it was' })?.previous?.isRandom, false);
    assert.equal(parse({ passphrase: 'what it is', previousKey: key })?.previous?.isRandom, true);
  });

  test('a secret that says nothing of keys is none', () => {
    assert.equal(parse({}), undefined);
    assert.equal(parse({ username: 'admin' }), undefined);
    assert.equal(parseKeys(undefined), undefined);
  });

  const wrong: readonly (readonly [string, Record<string, string>])[] = [
    ['is too short', { key: Buffer.alloc(31).toString('base64') }],
    ['is no Base64', { key: `${key.slice(0, -1)}!` }],
    ['is both', { key, passphrase: 'correct horse' }],
    ['is a short passphrase', { passphrase: 'secret7' }],
    ['ends with a line break', { passphrase: 'correct horse\n' }],
    ['is only the one before', { previousKey: key }],
  ];
  for (const [what, values] of wrong) {
    test(`X01: one that ${what} is refused, and not quoted`, () => {
      assert.throws(
        () => parse(values),
        (error) => {
          assert.ok(error instanceof InvalidArgument);
          assert.ok(!Object.values(values).some((value) => error.message.includes(value.trim())), error.message);
          return true;
        },
      );
    });
  }
});
