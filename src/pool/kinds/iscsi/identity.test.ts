import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { identityIn, isUsedByAnother, placed, refusalOf } from './identity.ts';
import { normalWwid } from './wwid.ts';

const digits = '6001405aabbccddeeff0011223344556';
const [naa, other] = [`naa.${digits}`, 'naa.6001405000000000000000000000000f'];

describe('the identity of a logical unit', () => {
  test('is the same as sysfs and as multipath write it', () => {
    for (const text of [naa, `naa.${digits.toUpperCase()}`, `3${digits}`, ` ${naa}\n`]) {
      assert.equal(normalWwid(text), naa, text);
    }
    assert.equal(normalWwid('20011223344556677'), 'eui.0011223344556677');
    assert.equal(normalWwid('t10.ATA     disk 1'), 't10.ATA_disk_1');
    for (const text of ['', 'sda', digits, 'naa.12', '/dev/sda']) assert.equal(normalWwid(text), undefined, text);
    assert.equal(identityIn(`device/wwid ${naa}`), naa);
    assert.equal(identityIn('vpd_pg80 serial'), 'vpd_pg80 serial');
  });

  test('must be there, and be the one that the PersistentVolume names', () => {
    const none = { wwid: undefined, seen: undefined };
    assert.equal(refusalOf('1', naa, none), undefined);
    assert.match(refusalOf('1', undefined, none) ?? '', /has no identity/);
    assert.equal(refusalOf('1', naa, { ...none, wwid: naa }), undefined);
    assert.match(refusalOf('1', other, { ...none, wwid: naa }) ?? '', /has given the number to another volume/);
  });

  test('stays the same as long as the volume is in use', () => {
    assert.equal(refusalOf('1', naa, { wwid: undefined, seen: placed('1', naa) }), undefined);
    assert.match(refusalOf('1', other, { wwid: undefined, seen: placed('1', naa) }) ?? '', /and was naa.6001405aa/);
    assert.match(refusalOf('1', other, { wwid: other, seen: placed('1', naa) }) ?? '', /and was naa.6001405aa/);
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
