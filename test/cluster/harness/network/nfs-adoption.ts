import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { Manifest } from '../objects.ts';

const page = readFileSync(fileURLToPath(new URL('../../../../docs/nfs.md', import.meta.url)), 'utf8');
const heading = '### Volumes of csi-driver-nfs and nfs-subdir-external-provisioner';

/** The blocks of commands in that section of docs/nfs.md. */
export function adoptionCommands(): string[] {
  const section = page.slice(page.indexOf(heading)).split(/\n##/)[0] ?? '';
  return Array.from(section.matchAll(/```sh\n([^`]*)```/g), ([, block = '']) => block);
}

export interface Old {
  readonly name: string;
  readonly directory: string;
  readonly spec: Readonly<Record<string, unknown>>;
}

/** As csi-driver-nfs and nfs-subdir-external-provisioner write them. */
export const oldVolumes = (server: string): readonly Old[] => [
  {
    name: 'pvc-of-csi-driver-nfs',
    directory: 'pvc-1',
    spec: {
      mountOptions: ['nfsvers=4.1'],
      csi: {
        driver: 'nfs.csi.k8s.io',
        volumeHandle: `${server}#export#pvc-1##`,
        volumeAttributes: {
          'csi.storage.k8s.io/pv/name': 'pvc-1',
          'csi.storage.k8s.io/pvc/name': 'data',
          'csi.storage.k8s.io/pvc/namespace': 'default',
          server,
          share: '/export',
          'storage.kubernetes.io/csiProvisionerIdentity': '1764000000000-1-nfs.csi.k8s.io',
          subdir: 'pvc-1',
        },
      },
    },
  },
  {
    name: 'pvc-of-subdir-provisioner',
    directory: 'default-data-pvc-2',
    spec: { nfs: { server, path: '/export/default-data-pvc-2' } },
  },
];

export function oldPersistentVolume({ name, spec }: Old): Manifest {
  return {
    apiVersion: 'v1',
    kind: 'PersistentVolume',
    metadata: {
      name,
      annotations: { 'pv.kubernetes.io/provisioned-by': 'nfs.csi.k8s.io' },
      finalizers: ['external-provisioner.volume.kubernetes.io/finalizer', 'kubernetes.io/pv-protection'],
    },
    spec: {
      capacity: { storage: '64Mi' },
      accessModes: ['ReadWriteMany'],
      persistentVolumeReclaimPolicy: 'Delete',
      storageClassName: 'of-another-driver',
      ...spec,
    },
  };
}
