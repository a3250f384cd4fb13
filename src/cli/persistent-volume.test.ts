import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { parse } from 'yaml';
import type { AccessMode } from '../volume/capability.ts';
import { volumeIdFor } from '../volume/id.ts';
import type { VolumeRecord } from '../volume/record.ts';
import { type ManifestOptions, manifestNames, persistentVolumeOf } from './persistent-volume.ts';
import { toYaml } from './persistent-volume-yaml.ts';

const options: ManifestOptions = {
  driverName: 'holdfast.csi.dev',
  nodeId: 'node-1',
  reclaimPolicy: 'Retain',
  storageClass: undefined,
};

const claimOf = (namespace: string, name: string) => ({
  'csi.storage.k8s.io/pvc/namespace': namespace,
  'csi.storage.k8s.io/pvc/name': name,
});

function record(name: string, more: Partial<VolumeRecord> = {}): VolumeRecord {
  return {
    id: volumeIdFor('node-1', 'default', name),
    name,
    sizeBytes: 10n << 30n,
    content: { type: 'mount', fsType: 'ext4' },
    accessModes: ['SINGLE_NODE_WRITER'],
    provisioning: 'thin',
    parameters: {},
    blockSizeBytes: 512,
    createdAt: '2026-01-01T00:00:00.000Z',
    ...more,
  };
}

const manifestOf = (volume: VolumeRecord, more: Partial<ManifestOptions> = {}) =>
  persistentVolumeOf(volume, manifestNames([volume])[0] ?? '', { ...options, ...more });

describe('a PersistentVolume from a record', () => {
  test('has all that external-provisioner would have put into it', () => {
    const volume = record('pvc-1', { parameters: claimOf('shop', 'data-db-0') });
    assert.deepEqual(manifestOf(volume, { storageClass: 'fast', reclaimPolicy: 'Delete' }), {
      apiVersion: 'v1',
      kind: 'PersistentVolume',
      metadata: { name: 'pvc-1', annotations: { 'pv.kubernetes.io/provisioned-by': 'holdfast.csi.dev' } },
      spec: {
        capacity: { storage: '10Gi' },
        accessModes: ['ReadWriteOnce'],
        volumeMode: 'Filesystem',
        persistentVolumeReclaimPolicy: 'Delete',
        storageClassName: 'fast',
        claimRef: { apiVersion: 'v1', kind: 'PersistentVolumeClaim', namespace: 'shop', name: 'data-db-0' },
        csi: { driver: 'holdfast.csi.dev', volumeHandle: volume.id, fsType: 'ext4' },
        nodeAffinity: {
          required: {
            nodeSelectorTerms: [
              { matchExpressions: [{ key: 'topology.holdfast.dev/node', operator: 'In', values: ['node-1'] }] },
            ],
          },
        },
      },
    });
  });

  test('a block volume has no filesystem; a size that is no whole unit is exact', () => {
    const { spec } = manifestOf(record('b', { content: { type: 'block' }, sizeBytes: (1n << 30n) + 4096n }));
    assert.equal(spec.volumeMode, 'Block');
    assert.deepEqual(Object.keys(spec.csi), ['driver', 'volumeHandle']);
    assert.equal(spec.capacity.storage, '1048580Ki');
  });

  for (const [modes, expected] of [
    [['SINGLE_NODE_WRITER'], ['ReadWriteOnce']],
    [['SINGLE_NODE_MULTI_WRITER'], ['ReadWriteOnce']],
    [['SINGLE_NODE_SINGLE_WRITER'], ['ReadWriteOncePod']],
    [['SINGLE_NODE_READER_ONLY'], ['ReadOnlyMany']],
    [
      ['SINGLE_NODE_MULTI_WRITER', 'SINGLE_NODE_READER_ONLY'],
      ['ReadWriteOnce', 'ReadOnlyMany'],
    ],
    // Kubernetes refuses ReadWriteOncePod beside another mode.
    [['SINGLE_NODE_SINGLE_WRITER', 'SINGLE_NODE_MULTI_WRITER'], ['ReadWriteOnce']],
  ] satisfies readonly (readonly [readonly AccessMode[], readonly string[]])[]) {
    test(`${modes.join(' and ')} is ${expected.join(' and ')}`, () => {
      assert.deepEqual(manifestOf(record('m', { accessModes: modes })).spec.accessModes, expected);
    });
  }

  test('its name is the one that it had, if that can be a name at all', () => {
    const parameters = { 'csi.storage.k8s.io/pv/name': 'pv-own' };
    const odd = record('Größe: 1\n- x');
    assert.deepEqual(manifestNames([record('pvc-1'), record('x', { parameters }), odd]), ['pvc-1', 'pv-own', odd.id]);
  });

  test('no two have one name', () => {
    const other = record('pvc-1', { id: volumeIdFor('node-1', 'other', 'pvc-1') });
    assert.deepEqual(manifestNames([record('pvc-1'), other]), ['pvc-1', other.id]);
  });

  test('a claim whose name cannot be one is left out', () => {
    for (const [namespace, name] of [
      ['a.b', 'x'],
      ['a', 'X'],
      ['a', '../x'],
      ['', 'x'],
    ] as const) {
      assert.equal(manifestOf(record('v', { parameters: claimOf(namespace, name) })).spec.claimRef, undefined);
    }
  });
});

describe('as YAML', () => {
  const oddTexts = ['1e3', '0o7', '0x1f', '1:30', '07', '1_000', 'no', 'y', 'on', 'null', 'true', '.5', '2026-01-01'];
  const text = fc.oneof(fc.constantFrom(...oddTexts), fc.string({ unit: 'binary' }));

  for (const version of ['1.1', '1.2'] as const) {
    test(`every text survives a reader of YAML ${version}`, () => {
      fc.assert(
        fc.property(text, text, text, (name, nodeId, storageClass) => {
          const manifest = persistentVolumeOf(record('v'), name, { ...options, nodeId, storageClass });
          assert.deepEqual(parse(toYaml(manifest), { version }), JSON.parse(JSON.stringify(manifest)));
        }),
      );
    });
  }

  test('is what people expect to read', () => {
    assert.equal(
      toYaml(manifestOf(record('123', { parameters: claimOf('shop', 'no') }))),
      `apiVersion: v1
kind: PersistentVolume
metadata:
  name: "123"
  annotations:
    pv.kubernetes.io/provisioned-by: holdfast.csi.dev
spec:
  capacity:
    storage: "10Gi"
  accessModes:
    - ReadWriteOnce
  volumeMode: Filesystem
  persistentVolumeReclaimPolicy: Retain
  claimRef:
    apiVersion: v1
    kind: PersistentVolumeClaim
    namespace: shop
    name: "no"
  csi:
    driver: holdfast.csi.dev
    volumeHandle: ${record('123').id}
    fsType: ext4
  nodeAffinity:
    required:
      nodeSelectorTerms:
        - matchExpressions:
            - key: topology.holdfast.dev/node
              operator: In
              values:
                - node-1
`,
    );
  });
});
