import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { volumeIdFor } from '../../../volume/id.ts';
import { idOfLvName, lvNameOfMapped, mappedName, newLvName } from './names.ts';

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
