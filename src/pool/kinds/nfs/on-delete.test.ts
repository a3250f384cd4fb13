import assert from 'node:assert/strict';
import { test } from 'node:test';
import { volumeIdFor } from '../../../volume/id.ts';
import { keptName } from './on-delete.ts';

const id = volumeIdFor('home', 'files', 'pvc-1');
const claimed = (namespace: string, name: string) => ({
  ...{ id, name: 'pvc-1' },
  parameters: { 'csi.storage.k8s.io/pvc/namespace': namespace, 'csi.storage.k8s.io/pvc/name': name },
});

test('DV05: a directory that is kept has the name of its claim, and its id', () => {
  assert.deepEqual(keptName('archive', claimed('shop', 'data-0')), ['archived', `shop-data-0.${id}`]);
  assert.deepEqual(keptName('retain', claimed('shop', 'data-0')), ['retained', `shop-data-0.${id}`]);
  assert.deepEqual(keptName('retain', { id, name: 'pvc-1', parameters: {} }), ['retained', `pvc-1.${id}`]);
});

test('DV05: no name of a claim or volume leads out of the directory for what is kept', () => {
  for (const name of ['../../etc', '/etc/passwd', '..', '.', '', 'a/b\n', 'x'.repeat(1000)]) {
    for (const volume of [claimed(name, name), { id, name, parameters: {} }]) {
      const [, kept] = keptName('archive', volume);
      assert.match(kept, /^[A-Za-z0-9_-]*\.vol-[a-z2-7]{26}$/);
      assert.ok(Buffer.byteLength(kept) <= 255, kept);
    }
  }
});
