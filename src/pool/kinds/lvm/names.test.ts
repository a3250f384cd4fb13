import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { volumeIdFor } from '../../../volume/id.ts';
import { idOfLvName, isOwnName, lvNameOfMapped, mappedName, newLvName } from './names.ts';

const vgNames = fc.stringMatching(/^[a-zA-Z0-9+_.][a-zA-Z0-9+_.-]{0,39}$/);

describe('names of logical volumes', () => {
  test('one of ours tells its id, and none is given twice', () => {
    const id = volumeIdFor('node', 'pool', 'name');
    assert.equal(idOfLvName(newLvName(id)), id);
    assert.notEqual(newLvName(id), newLvName(id));
    for (const name of [id, `${id}.x`, `${id}.0123456`, 'root', `x${id}.01234567`]) {
      assert.equal(idOfLvName(name), undefined);
    }
  });

  test('the name of the mapped device leads back, and fits into what the kernel takes', () => {
    fc.assert(
      fc.property(vgNames, fc.string(), (vgName, text) => {
        const lvName = newLvName(volumeIdFor('node', 'pool', text));
        const mapped = mappedName(vgName, lvName);
        assert.ok(Buffer.byteLength(mapped) < 128);
        assert.equal(lvNameOfMapped(vgName, mapped), lvName);
      }),
    );
    assert.equal(lvNameOfMapped('vg', 'vg--0-root'), undefined);
  });
});

test('lvm 6: what is ours has a name of ours, and so have its parts', () => {
  const volume = `${volumeIdFor('node', 'pool', 'a')}.00c0ffee`;
  for (const name of [volume, `${volume}_rimage_1`, `${volume}_rmeta_0`, `${volume}-real`, 'holdfast-pool']) {
    assert.equal(isOwnName(name), true, name);
  }
  for (const name of ['holdfast-thin', 'holdfast-thin-tpool', 'holdfast-thin_tdata', 'holdfast-thin_tmeta']) {
    assert.equal(isOwnName(name), true, name);
  }
  for (const name of [
    'database',
    'database_rimage_0',
    'pvmove0',
    'lvol0_pmspare',
    '',
    'holdfast',
    'my-holdfast-thin',
  ]) {
    assert.equal(isOwnName(name), false, name);
  }
});
