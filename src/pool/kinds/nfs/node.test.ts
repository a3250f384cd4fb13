import assert from 'node:assert/strict';
import { test } from 'node:test';
import { InvalidArgument } from '../../../volume/errors.ts';
import { parseHandle } from '../../../volume/handle.ts';
import type { VolumeOnNode } from '../../node-side.ts';
import { nfsNodeKind } from './node.ts';

const device = { major: 0, minor: 52 };

function volumeWith(context: Record<string, string>): VolumeOnNode {
  const handle = parseHandle('nas#export#pvc-1');
  assert.ok(handle !== undefined);
  return { handle, context, content: { type: 'directory' }, accessModes: [], provisioning: 'thin' };
}

test('a volume that a person wrote down is a directory that all nodes share', () => {
  const demand = { access: 'mount', fsType: 'nfs' } as const;
  const context = { server: 'nas', share: '/export', subDir: 'pvc-1' };
  assert.deepEqual(nfsNodeKind.read(context, demand), { content: { type: 'directory' } });
  assert.throws(() => nfsNodeKind.read(context, { access: 'block', fsType: undefined }), InvalidArgument);
  assert.throws(() => nfsNodeKind.read({ ...context, subDir: '../x' }, demand), InvalidArgument);
  assert.equal(nfsNodeKind.serverOf(volumeWith(context)), 'nas');
  assert.ok(nfsNodeKind.traits.accessModes.includes('MULTI_NODE_MULTI_WRITER'));
});

test('the mounts of a volume are known by their source alone', () => {
  const shown = (context: Record<string, string>, source: string, fsType = 'nfs4') =>
    nfsNodeKind.shows(volumeWith(context), { device: undefined, mount: { device, fsType, root: '/', source } });
  const context = { server: 'nas', share: '/export', subDir: 'pvc-1' };
  assert.equal(shown(context, 'nas:/export/pvc-1'), 'whole');
  assert.equal(shown(context, 'nas:/export/pvc-1/sub'), 'part');
  assert.equal(shown(context, 'nas:/export/pvc-10'), undefined);
  assert.equal(shown(context, 'nas:/export'), undefined);
  assert.equal(shown(context, 'other:/export/pvc-1'), undefined);
  assert.equal(shown(context, 'nas:/export/pvc-1', 'ext4'), undefined);
  assert.equal(shown({ server: 'nas', share: '/' }, 'nas:/x'), 'part');
});
