import assert from 'node:assert/strict';
import { test } from 'node:test';
import { nfsByName } from './by-name.ts';

const id = `vol-${'a'.repeat(26)}`;
const device = { major: 0, minor: 52 };

test('a mount of a volume is known by its name alone', () => {
  const seen = (source: string, fsType = 'nfs4') =>
    nfsByName({ device: undefined, mount: { device, fsType, root: '/', source } });
  assert.deepEqual(seen(`nas:/export/holdfast/volumes/${id}/data`), { id, isWhole: true });
  assert.deepEqual(seen(`[fd00::1]:/holdfast/volumes/${id}/data/sub`), { id, isWhole: false });
  assert.equal(seen('nas:/export'), undefined);
  assert.equal(seen(`nas:/export/holdfast/volumes/${id}`), undefined);
  assert.equal(seen(`/export/holdfast/volumes/${id}/data`, 'ext4'), undefined);
  assert.equal(nfsByName({ device, mount: undefined }), undefined);
});
