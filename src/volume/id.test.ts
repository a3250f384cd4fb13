import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { ephemeralIdFor, parseVolumeId, volumeIdFor } from './id.ts';

describe('volume ids', () => {
  test('L07 L08 CV31: any name gives an id of the exact shape, 30 bytes long', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (name) => {
        const id = volumeIdFor('node', 'pool', name);
        assert.equal(parseVolumeId(id), id);
        assert.equal(Buffer.byteLength(id), 30);
      }),
    );
  });

  test('T03: the same name gives the same id, and the id never changes between versions', () => {
    assert.equal(volumeIdFor('node-1', 'default', 'pvc-1'), volumeIdFor('node-1', 'default', 'pvc-1'));
    assert.equal(volumeIdFor('node-1', 'default', 'pvc-1'), 'vol-slodyjhu5ik75cexb5hf2nmo2v');
  });

  test('node, pool and name are kept apart', () => {
    const ids = [
      volumeIdFor('a', 'b', 'c'),
      volumeIdFor('ab', '', 'c'),
      volumeIdFor('a', 'bc', ''),
      volumeIdFor('a', 'c', 'b'),
    ];
    assert.equal(new Set(ids).size, ids.length);
  });

  test('the id of an ephemeral volume is that of no name, however the name is chosen', () => {
    const handle = `csi-${'0'.repeat(64)}`;
    const ids = [
      ephemeralIdFor('node', handle),
      ephemeralIdFor('node', 'default'),
      volumeIdFor('node', '', handle),
      volumeIdFor('node', 'default', handle),
      volumeIdFor('node', handle, ''),
      volumeIdFor('node', 'default', ''),
    ];
    assert.equal(new Set(ids).size, ids.length);
    for (const id of ids) assert.equal(parseVolumeId(id), id);
  });

  for (const text of [
    '',
    'vol-',
    '../vol-aaaaaaaaaaaaaaaaaaaaaaaaaa',
    'vol-aaaaaaaaaaaaaaaaaaaaaaaaaa/..',
    'vol-aaaaaaaaaaaaaaaaaaaaaaaaaa\n',
    'VOL-AAAAAAAAAAAAAAAAAAAAAAAAAA',
    'vol-aaaaaaaaaaaaaaaaaaaaaaaaa1',
    'snap-aaaaaaaaaaaaaaaaaaaaaaaaaa',
  ]) {
    test(`DV02: ${JSON.stringify(text)} is no id`, () => assert.equal(parseVolumeId(text), undefined));
  }
});
