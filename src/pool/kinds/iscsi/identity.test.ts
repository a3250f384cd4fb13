import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { identityIn, identityOf, isUsedByAnother, placed, refusalOf, refusalOfPaths } from './identity.ts';
import { multipathName, normalWwid } from './wwid.ts';

const digits = '6001405aabbccddeeff0011223344556';
const [naa, other] = [`naa.${digits}`, 'naa.6001405000000000000000000000000f'];

describe('the identity of a logical unit', () => {
  test('is the same as sysfs and as multipath write it', () => {
    for (const text of [naa, `naa.${digits.toUpperCase()}`, `3${digits}`, ` ${naa}\n`]) {
      assert.equal(normalWwid(text), naa, text);
    }
    assert.equal(normalWwid('20011223344556677'), 'eui.0011223344556677');
    assert.equal(multipathName(naa), `3${digits}`);
    assert.equal(multipathName('eui.0011223344556677'), '20011223344556677');
    assert.equal(multipathName('t10.ATA_disk_1'), undefined);
    assert.equal(normalWwid('t10.ATA     disk 1'), 't10.ATA_disk_1');
    for (const text of ['', 'sda', digits, 'naa.12', '/dev/sda']) assert.equal(normalWwid(text), undefined, text);
    assert.equal(identityIn(`device/wwid ${naa}`), naa);
    assert.equal(identityIn('vpd_pg80 serial'), 'vpd_pg80 serial');
  });

  test('must be there, and be the one that the PersistentVolume names', () => {
    const none = { wwid: undefined, seen: undefined };
    assert.equal(refusalOf('1', [naa], none), undefined);
    assert.match(refusalOf('1', [], none) ?? '', /has no identity/);
    assert.equal(refusalOf('1', [naa], { ...none, wwid: naa }), undefined);
    assert.match(refusalOf('1', [other], { ...none, wwid: naa }) ?? '', /has given the number to another volume/);
  });

  test('stays the same as long as the volume is in use', () => {
    assert.equal(refusalOf('1', [naa], { wwid: undefined, seen: placed('1', naa) }), undefined);
    assert.match(refusalOf('1', [other], { wwid: undefined, seen: placed('1', naa) }) ?? '', /and was naa.6001405aa/);
    assert.match(refusalOf('1', [other], { wwid: other, seen: placed('1', naa) }) ?? '', /and was naa.6001405aa/);
  });
});

describe('the identity of a logical unit over several paths', () => {
  const known = { wwid: naa, seen: undefined };
  const refusal = (identities: readonly (string | undefined)[], mapped = digits) => {
    const paths = identities.map((each) => (each === undefined ? [] : [each]));
    return refusalOfPaths('1', paths, known, { name: 'dm-0', wwid: `3${mapped}` });
  };

  test('is that of each path and of the map', () => {
    assert.equal(refusal([naa, naa]), undefined);
    assert.equal(refusalOfPaths('1', [[naa]], known, undefined), undefined);
  });

  test('is refused if one path leads to another unit, or has none', () => {
    assert.match(refusal([naa, other]) ?? '', /is naa.6001405000000000000000000000000f, not naa.6001405aa/);
    assert.match(refusal([naa, undefined]) ?? '', /has no identity/);
    assert.match(refusal([]) ?? '', /has no path any more/);
    const any = { wwid: undefined, seen: undefined };
    const map = { name: 'dm-0', wwid: `3${digits}` };
    assert.match(refusalOfPaths('1', [[naa], [other]], any, map) ?? '', /dm-0 of multipathd is not of that alone/);
  });

  test('is refused if the map is of another unit', () => {
    assert.match(refusal([naa, naa], other.slice(4)) ?? '', /dm-0 of multipathd is not of that alone/);
    assert.match(refusal([naa], 'mpatha') ?? '', /dm-0 of multipathd is not of that alone/);
  });
});

describe('a logical unit with several names', () => {
  const eui = 'eui.0011223344556677';
  const none = { wwid: undefined, seen: undefined };
  const both = [naa, eui];

  test('is the one that a PersistentVolume names by any of them', () => {
    for (const wwid of both) {
      assert.equal(refusalOf('1', both, { ...none, wwid }), undefined);
      // A driver or a kernel that preferred the other has noted it.
      assert.equal(refusalOf('1', both, { ...none, seen: placed('1', wwid) }), undefined);
    }
    assert.match(refusalOf('1', both, { ...none, wwid: other }) ?? '', /^is naa.6001405aa.* not naa.60014050/);
    assert.match(refusalOf('1', both, { ...none, seen: placed('1', other) }) ?? '', /and was naa.60014050/);
  });

  test('is noted by the name of its map, or by the same one of them', () => {
    assert.equal(identityOf(both, undefined), naa);
    assert.equal(identityOf(both, { wwid: '20011223344556677' }), eui);
    assert.equal(identityOf(both, { wwid: `3${digits}` }), naa);
    assert.equal(identityOf([], undefined), undefined);
  });

  test('is one over several paths, if no name of theirs contradicts another', () => {
    const map = { name: 'dm-0', wwid: '20011223344556677' };
    assert.equal(refusalOfPaths('1', [both, both], none, map), undefined);
    assert.equal(refusalOfPaths('1', [both, [eui]], none, map), undefined);
    assert.match(refusalOfPaths('1', [both, [other, eui]], none, map) ?? '', /is not of that alone/);
    assert.match(refusalOfPaths('1', [both], none, { ...map, wwid: '20011223344556678' }) ?? '', /not of that alone/);
  });
});

describe('the device of a volume that leaves', () => {
  const note = { users: ['a', 'b'], connections: [], identities: { a: placed('1', naa), b: placed('11', other) } };

  test('goes if no other volume has its place', () => {
    assert.equal(isUsedByAnother(note, 'a', '1'), false);
  });

  test('stays if another volume has its place, or a place that is not known yet', () => {
    assert.equal(isUsedByAnother({ ...note, identities: { ...note.identities, b: placed('1', naa) } }, 'a', '1'), true);
    assert.equal(isUsedByAnother({ ...note, identities: { a: placed('1', naa) } }, 'a', '1'), true);
    assert.equal(isUsedByAnother({ users: ['a', 'b'], connections: [] }, 'a', '1'), true);
  });
});
