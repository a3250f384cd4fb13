import assert from 'node:assert/strict';
import { test } from 'node:test';
import { volumeIdFor } from '../../../volume/id.ts';
import { directoryKind } from './kind.ts';

const id = volumeIdFor('node', 'pool', 'volume');

test('UP08: a mounted directory names its volume, while its pool is closed', () => {
  const device = { major: 8, minor: 1 };
  const named = (root: string) =>
    directoryKind.volumeByName({ device, mount: { device, fsType: 'ext4', root, source: '/dev/sda1' } });
  assert.deepEqual(named(`/srv/pool/volumes/${id}/data`), { id, isWhole: true });
  assert.deepEqual(named(`/srv/pool/volumes/${id}/data/sub/directory`), { id, isWhole: false });
  for (const root of ['/', `/srv/${id}/data`, `/volumes/${id}`, `/volumes/${id}/database`, '/volumes/vol-x/data']) {
    assert.equal(named(root), undefined, root);
  }
  assert.equal(directoryKind.volumeByName({ device, mount: undefined }), undefined);
});
