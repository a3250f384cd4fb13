import assert from 'node:assert/strict';
import { test } from 'node:test';
import { InvalidArgument } from '../../../volume/errors.ts';
import { readNfsParameters } from './parameters.ts';

// biome-ignore-start lint/suspicious/noTemplateCurlyInString: placeholders of classes
const exported = { host: 'nas', share: '/export' };
const claim = {
  'csi.storage.k8s.io/pvc/namespace': 'shop',
  'csi.storage.k8s.io/pvc/name': 'data-0',
  'csi.storage.k8s.io/pv/name': 'pvc-1',
};

test('CV10: a class of csi-driver-nfs is read as its users wrote it', () => {
  assert.deepEqual(readNfsParameters({}, exported), { name: undefined, onDelete: undefined });
  const subDir = '${pvc.metadata.namespace}/${pvc.metadata.name}-${pv.metadata.name}';
  const theirs = { server: 'nas', share: '/export', subDir, mountPermissions: '0777', onDelete: 'archive', ...claim };
  assert.deepEqual(readNfsParameters(theirs, exported), { name: 'shop/data-0-pvc-1', onDelete: 'archive' });
});

test('CV10: what cannot be meant is refused, and the parameter is named', () => {
  const wrong: readonly (readonly [Record<string, string>, RegExp])[] = [
    [{ server: 'other' }, /^Parameter server is not that of the pool, nas: /],
    [{ share: '/other' }, /^Parameter share is not that of the pool, \/export: /],
    [{ onDelete: 'keep' }, /^Parameter onDelete must be /],
    [{ mountPermissions: 'rwx' }, /^Parameter mountPermissions must be a mode in octal/],
    [{ subDir: '${pvc.metadata.uid}' }, /^Parameter subDir has \$\{pvc\.metadata\.uid\}; it can have \$\{pvc/],
    [{ subDir: '../${pvc.metadata.name}' }, /^Parameter subDir must be a path in the share without '\.\.'/],
    [{ subDir: '/absolute' }, /^Parameter subDir must be a path in the share/],
    [{ subDir: '' }, /^Parameter subDir /],
    [
      { subDir: '${pv.metadata.name}', 'csi.storage.k8s.io/pv/name': '..' },
      /^Parameter subDir must be a path in the share/,
    ],
    [{ subDir: '${pv.metadata.name}', 'csi.storage.k8s.io/pv/name': 'a/b' }, /whose value is no name of a directory/],
  ];
  for (const [given, message] of wrong) {
    const refused = (error: Error) => error instanceof InvalidArgument && message.test(error.message);
    assert.throws(() => readNfsParameters({ ...claim, ...given }, exported), refused, JSON.stringify(given));
  }
  assert.throws(() => readNfsParameters({ subDir: '${pvc.metadata.name}' }, exported), /--extra-create-metadata/);
});
// biome-ignore-end lint/suspicious/noTemplateCurlyInString: placeholders of classes
