import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { type DiskMatch, fitsPattern, type MatchedDisk, matches } from './criteria.ts';

const disk: MatchedDisk = {
  bus: 'scsi',
  identity: 'wwid naa.5000cca0bbe4d3a1',
  isRotational: true,
  model: 'HUS726T4TAL',
  sizeBytes: 4n << 40n,
};
const links = ['/dev/disk/by-id/scsi-SHGST_HUS726T4TAL_V8G6A1B', '/dev/disk/by-id/wwn-0x5000cca0bbe4d3a1'];

describe('whether a disk is of the sort that a section is for', () => {
  const fitting: readonly DiskMatch[] = [
    { id: 'scsi-SHGST_*' },
    { id: 'wwn-0x5000cca0bbe4d3a1' },
    { id: 'wwid naa.5000*' },
    { model: 'HUS726*' },
    { minimumBytes: 4n << 40n },
    { maximumBytes: 4n << 40n },
    { rotational: true },
    { bus: 'scsi' },
    { id: 'scsi-*', model: '*', minimumBytes: 3n << 40n, maximumBytes: 5n << 40n, rotational: true, bus: 'scsi' },
  ];
  const unfit: readonly DiskMatch[] = [
    { id: 'SHGST_*' },
    { id: '/dev/disk/by-id/scsi-*' },
    { model: 'hus726*' },
    { minimumBytes: (4n << 40n) + 1n },
    { maximumBytes: (4n << 40n) - 1n },
    { rotational: false },
    { bus: 'nvme' },
  ];
  for (const match of fitting) {
    test(`${JSON.stringify(match, (_, value) => String(value))} fits`, () => assert.ok(matches(match, disk, links)));
  }

  test('all that is given must hold', () => {
    for (const match of unfit) {
      assert.ok(!matches(match, disk, links));
      for (const other of fitting) assert.ok(!matches({ ...other, ...match }, disk, links));
    }
  });

  test('a disk of a network fits only a match that names this bus', () => {
    const remote: MatchedDisk = { ...disk, bus: 'network' };
    for (const match of fitting) {
      assert.ok(!matches(match, remote, links));
      assert.ok(matches({ ...match, bus: 'network' }, remote, links));
    }
  });

  test('what a disk does not say fits no pattern', () => {
    const { model: _, ...silent } = disk;
    assert.ok(!matches({ model: '*' }, { ...silent, model: undefined }, links));
    assert.ok(!matches({ id: '*' }, { ...disk, identity: undefined }, []));
  });

  test('a pattern means what the same regular expression means', () => {
    const letters = fc.string({ unit: fc.constantFrom('a', 'b', '.', '*', '?'), maxLength: 8 });
    fc.assert(
      fc.property(letters, letters, (pattern, text) => {
        const source = pattern.replaceAll('.', '\\.').replaceAll('*', '[^]*').replaceAll('?', '[^]');
        assert.equal(fitsPattern(pattern, text), text !== '' && new RegExp(`^${source}$`).test(text));
      }),
    );
  });

  test('a long pattern is decided at once', () => {
    assert.ok(!fitsPattern(`${'*a'.repeat(100)}b`, 'a'.repeat(5_000)));
  });
});
