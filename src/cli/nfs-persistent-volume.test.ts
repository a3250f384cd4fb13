import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { successorOfNfs } from './nfs-persistent-volume.ts';

const common = {
  capacity: { storage: '1Gi' },
  accessModes: ['ReadWriteMany'],
  storageClassName: 'nfs',
  mountOptions: ['nfsvers=4.1', 'noatime'],
  claimRef: { apiVersion: 'v1', kind: 'PersistentVolumeClaim', namespace: 'shop', name: 'data', uid: 'y' },
  volumeMode: 'Filesystem',
};

/** A volume that csi-driver-nfs 4 made for a claim. */
const provisioned = {
  driver: 'nfs.csi.k8s.io',
  volumeHandle: 'nas.example.com#export/kubernetes#shop-data##',
  volumeAttributes: {
    'csi.storage.k8s.io/pv/name': 'pvc-1',
    'csi.storage.k8s.io/pvc/name': 'data',
    'csi.storage.k8s.io/pvc/namespace': 'shop',
    'storage.kubernetes.io/csiProvisionerIdentity': '1764-6242-nfs.csi.k8s.io',
    server: 'nas.example.com',
    share: '/export/kubernetes',
    subdir: 'shop-data',
    onDelete: 'retain',
    mountPermissions: '0755',
  },
};

const of = (spec: Record<string, unknown>) => ({
  apiVersion: 'v1',
  kind: 'PersistentVolume',
  metadata: { name: 'pvc-1', uid: 'x', finalizers: ['kubernetes.io/pv-protection'], labels: { a: 'b' } },
  spec: { ...common, ...spec },
});

function successor(spec: Record<string, unknown>) {
  const found = successorOfNfs(of(spec));
  assert.ok(found !== undefined && !('mistake' in found), JSON.stringify(found));
  return found;
}

const expected = (csi: Record<string, unknown>) => ({
  apiVersion: 'v1',
  kind: 'PersistentVolume',
  metadata: { name: 'pvc-1', labels: { a: 'b' } },
  spec: {
    ...common,
    persistentVolumeReclaimPolicy: 'Retain',
    // The claim is Lost while it has none, and bound again to one with its uid alone.
    claimRef: { apiVersion: 'v1', kind: 'PersistentVolumeClaim', namespace: 'shop', name: 'data', uid: 'y' },
    csi: { driver: 'files.holdfast.csi.dev', volumeHandle: 'pvc-1', ...csi },
  },
});

describe('a PersistentVolume on NFS', () => {
  test('of csi-driver-nfs has a successor with the same claim and directory', () => {
    const { manifest, warnings } = successor({ csi: provisioned, persistentVolumeReclaimPolicy: 'Delete' });
    const volumeAttributes = {
      ...{ server: 'nas.example.com', share: '/export/kubernetes', subDir: 'shop-data' },
      mountPermissions: '0755',
    };
    assert.deepEqual(manifest, expected({ volumeAttributes }));
    assert.deepEqual(warnings, ['pvc-1: its reclaim policy becomes Retain: nothing deletes such a volume']);
  });

  test('of nfs-subdir-external-provisioner, too', () => {
    const nfs = { server: '10.0.0.1', path: '/export/shop-data-pvc-1', readOnly: true };
    const { manifest, warnings } = successor({ nfs, persistentVolumeReclaimPolicy: 'Retain' });
    const volumeAttributes = { server: '10.0.0.1', share: '/export/shop-data-pvc-1' };
    assert.deepEqual(manifest, expected({ readOnly: true, volumeAttributes }));
    assert.deepEqual(warnings, []);
  });

  const refused: Readonly<Record<string, readonly [Record<string, unknown>, RegExp]>> = {
    'a directory that is a placeholder still': [
      {
        csi: {
          ...provisioned,
          volumeAttributes: { ...provisioned.volumeAttributes, subdir: `$${'{pvc.metadata.name}'}` },
        },
      },
      /^pvc-1: subDir has a placeholder/,
    ],
    'a directory outside of the share': [
      { csi: { ...provisioned, volumeAttributes: { ...provisioned.volumeAttributes, subdir: '../other' } } },
      /^pvc-1: .*subDir/,
    ],
    'NFS 2': [{ csi: provisioned, mountOptions: ['nfsvers=2'] }, /^pvc-1: .*mountOptions/],
    'no share': [{ csi: { ...provisioned, volumeAttributes: { server: 'nas' } } }, /needs server and share/],
  };
  for (const [name, [spec, words]] of Object.entries(refused)) {
    test(`has none with ${name}`, () => {
      const found = successorOfNfs(of(spec));
      assert.ok(found !== undefined && 'mistake' in found);
      assert.match(found.mistake, words);
    });
  }

  test('is none of another driver', () => {
    assert.equal(successorOfNfs(of({ csi: { driver: 'ebs.csi.aws.com', volumeHandle: 'vol' } })), undefined);
    assert.equal(successorOfNfs({ kind: 'Pod' }), undefined);
  });
});
