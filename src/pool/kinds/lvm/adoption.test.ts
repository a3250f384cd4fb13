import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { InvalidArgument } from '../../../volume/errors.ts';
import { nameIn } from './adoption.ts';

const group = { name: 'vg0', poolName: 'fast' };

describe('the path of a logical volume that is to be adopted', () => {
  test('has the name of the group and its own', () => {
    assert.equal(nameIn(group, '/dev/vg0/pvc-1a2b', 'adopt'), 'pvc-1a2b');
    assert.equal(nameIn(group, '/dev/vg0/pvc-1a2b', 'release'), 'pvc-1a2b');
  });

  test('one of another group is for another pool', () => {
    assert.throws(() => nameIn(group, '/dev/vgtopo/7ce', 'adopt'), {
      name: InvalidArgument.name,
      message:
        '/dev/vgtopo/7ce is not in volume group vg0, which pool fast is in: name a pool of vgtopo (holdfast pools).',
    });
  });

  test('all else is told how to be written', () => {
    for (const path of ['/dev/vg0/holdfast-pool', '/dev/vg0/../x', '/dev/mapper/vg0-x', '/dev/sdb', '/srv/data']) {
      assert.throws(() => nameIn(group, path, 'adopt'), /names no logical volume .*: write \/dev\/vg0\/NAME\.$/, path);
    }
    // A volume goes back into its own group alone.
    assert.throws(() => nameIn(group, '/dev/vgtopo/7ce', 'release'), /write \/dev\/vg0\/NAME\.$/);
  });
});
