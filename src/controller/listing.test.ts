import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Aborted } from '../volume/errors.ts';
import { volumeIdFor } from '../volume/id.ts';
import { parsePageRequest } from './listing.ts';

describe('a page of a listing', () => {
  const id = volumeIdFor('n1', 'fast', 'pvc-1');

  test('N01: max_entries bounds the page, 0 does not', () => {
    assert.deepEqual(parsePageRequest('', 3), { after: undefined, maximumEntries: 3 });
    assert.equal(parsePageRequest('', 0).maximumEntries, 10_000);
    assert.equal(parsePageRequest('', 2 ** 31 - 1).maximumEntries, 10_000);
  });

  test('N02: a token is an id, also of a volume that is gone', () => {
    assert.equal(parsePageRequest(id, 0).after, id);
  });

  for (const token of ['x', '0', `${id} `, `${id}\n`, id.toUpperCase(), '../vol', 'vol-', `snap-${id.slice(4)}`]) {
    test(`LV02: token ${JSON.stringify(token)} is ABORTED`, () => {
      assert.throws(() => parsePageRequest(token, 0), Aborted);
    });
  }
});
