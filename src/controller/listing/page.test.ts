import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Aborted } from '../../volume/errors.ts';
import { parseSnapshotId, parseVolumeId, snapshotIdFor, volumeIdFor } from '../../volume/id.ts';
import { parsePageRequest } from './page.ts';

describe('a page of a listing', () => {
  const id = volumeIdFor('n1', 'fast', 'pvc-1');
  const parse = (token: string, maximum: number) => parsePageRequest(token, maximum, parseVolumeId);

  test('N01: max_entries bounds the page, 0 does not', () => {
    assert.deepEqual(parse('', 3), { after: undefined, maximumEntries: 3 });
    assert.equal(parse('', 0).maximumEntries, 10_000);
    assert.equal(parse('', 2 ** 31 - 1).maximumEntries, 10_000);
  });

  test('N02: a token is an id, also of a volume that is gone', () => {
    assert.equal(parse(id, 0).after, id);
  });

  for (const token of ['x', '0', `${id} `, `${id}\n`, id.toUpperCase(), '../vol', 'vol-', `snap-${id.slice(4)}`]) {
    test(`LV02: token ${JSON.stringify(token)} is ABORTED`, () => {
      assert.throws(() => parse(token, 0), Aborted);
    });
  }

  test('LS07: the token of another listing is ABORTED', () => {
    const snapshot = snapshotIdFor('n1', 'snap');
    assert.equal(parsePageRequest(snapshot, 0, parseSnapshotId).after, snapshot);
    assert.throws(() => parsePageRequest(id, 0, parseSnapshotId), Aborted);
    assert.throws(() => parse(snapshot, 0), Aborted);
  });
});
