import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readExecContext } from '../pool/kinds/exec/context.ts';
import { persistentVolumeOfFlex, readFlexVolume } from './flex-persistent-volume.ts';

const manifest = {
  apiVersion: 'v1',
  kind: 'PersistentVolume',
  metadata: {
    name: 'share',
    uid: 'x',
    labels: { a: 'b' },
    annotations: { 'pv.kubernetes.io/bound-by-controller': 'yes' },
  },
  spec: {
    capacity: { storage: '1Gi' },
    accessModes: ['ReadWriteMany'],
    storageClassName: '',
    persistentVolumeReclaimPolicy: 'Delete',
    mountOptions: ['ro'],
    claimRef: { namespace: 'shop', name: 'data', uid: 'y' },
    flexVolume: {
      driver: 'fstab/CIFS',
      fsType: 'cifs',
      readOnly: true,
      secretRef: { name: 'user' },
      options: { networkPath: '//nas/share', 'a/b': 'c' },
    },
  },
  status: { phase: 'Bound' },
};

function convert(device: boolean, program?: string) {
  const flex = readFlexVolume(manifest);
  assert.ok(flex !== undefined && !('mistake' in flex));
  return persistentVolumeOfFlex(flex, { device, program });
}

test('a PersistentVolume of a FlexVolume driver has a successor with the same claim, options and Secret', () => {
  const attributes = {
    kind: 'exec',
    program: 'cifs',
    fsType: 'cifs',
    readOnly: 'true',
    'options.networkPath': '//nas/share',
    'options.a/b': 'c',
  };
  assert.deepEqual(convert(false), {
    apiVersion: 'v1',
    kind: 'PersistentVolume',
    metadata: { name: 'share', labels: { a: 'b' } },
    spec: {
      capacity: { storage: '1Gi' },
      accessModes: ['ReadWriteMany'],
      storageClassName: '',
      persistentVolumeReclaimPolicy: 'Retain',
      claimRef: { apiVersion: 'v1', kind: 'PersistentVolumeClaim', namespace: 'shop', name: 'data', uid: 'y' },
      csi: {
        driver: 'files.holdfast.csi.dev',
        volumeHandle: 'share',
        readOnly: true,
        volumeAttributes: attributes,
        nodeStageSecretRef: { namespace: 'shop', name: 'user' },
      },
    },
  });
  const { kind: _kind, ...context } = attributes;
  assert.deepEqual(readExecContext(context), {
    program: 'cifs',
    fsType: 'cifs',
    readOnly: true,
    options: { networkPath: '//nas/share', 'a/b': 'c' },
  });
});

test('for a program that presents a device, the fsType is that of the volume', () => {
  const { spec } = convert(true, 'disk') as { spec: { csi: Record<string, unknown> } };
  assert.equal(spec.csi['driver'], 'disks.holdfast.csi.dev');
  assert.equal(spec.csi['fsType'], 'cifs');
  assert.deepEqual(Object.keys(spec.csi['volumeAttributes'] as object).slice(0, 3), ['kind', 'program', 'readOnly']);
});

test('what is no PersistentVolume of a FlexVolume driver, and what is a broken one', () => {
  for (const other of [undefined, 'text', [], { kind: 'Pod' }, { ...manifest, spec: { nfs: {} } }]) {
    assert.equal(readFlexVolume(other), undefined);
  }
  const broken = readFlexVolume({ ...manifest, spec: { flexVolume: { options: { a: 1 } } } });
  assert.deepEqual(broken, {
    mistake:
      'a PersistentVolume with flexVolume: spec.flexVolume.driver: is missing; spec.flexVolume.options.a: must be text, not 1',
  });
  const long = readFlexVolume({ ...manifest, metadata: { name: 'x'.repeat(200) } });
  assert.ok(long !== undefined && 'mistake' in long);
});
