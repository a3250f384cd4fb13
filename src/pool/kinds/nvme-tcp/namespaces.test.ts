import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { NvmeNamespace } from '../../../kernel/block/nvme.ts';
import { accessModes, isMultiNode } from '../../../volume/capability.ts';
import { nvmeTcpNodeKind } from './kind.ts';
import { namespacesOf } from './namespaces.ts';

const digits = '0123abcd4567478989ab0123456789ab';

function namespace(name: string, ids: Partial<Pick<NvmeNamespace, 'uuid' | 'nguid'>>): NvmeNamespace {
  const device = { major: 259, minor: 0 };
  return { name, device, devicePath: `/dev/${name}`, sizeBytes: 0n, uuid: undefined, nguid: undefined, ...ids };
}

test('a namespace is known by the identity that is named, never by another one', () => {
  const namespaces = [namespace('nvme0n1', { nguid: digits }), namespace('nvme0n2', { uuid: digits })];
  const names = (kind: 'uuid' | 'nguid') =>
    namespacesOf({ namespaces }, { identity: { kind, digits } }).map(({ name }) => name);
  assert.deepEqual([names('uuid'), names('nguid')], [['nvme0n2'], ['nvme0n1']]);
});

test('several nodes may have the device, and never its filesystem', () => {
  const context = { nqn: 'nqn.a', portals: '10.0.0.1', uuid: digits };
  const { accessModes: modes = [] } = nvmeTcpNodeKind.read(context, { access: 'mount', fsType: 'xfs' });
  assert.ok(modes.length > 0 && !modes.some(isMultiNode));
  const block = nvmeTcpNodeKind.read(context, { access: 'block', fsType: undefined });
  assert.deepEqual(block.accessModes ?? nvmeTcpNodeKind.traits.accessModes, accessModes);
});
