import type { Manifest } from '../objects.ts';
import { iscsiTarget, nvmeTarget, storageAddress } from './network-cluster.ts';

export const asked = { storageClass: 'holdfast-disks', size: '300Mi' } as const;
const driver = 'disks.holdfast.csi.dev';
const uuids = ['11111111-2222-4333-8444-555555555501', '11111111-2222-4333-8444-555555555502'] as const;

export interface Disk {
  readonly name: string;
  readonly fsType: string;
  /** On the machine with the servers. */
  readonly make: string;
  readonly grow: string;
  readonly attributes: Readonly<Record<string, string>>;
  readonly secret?: Readonly<Record<string, string>>;
}

export const nvme: Disk = {
  name: 'nvme-tcp',
  fsType: 'xfs',
  make: `${nvmeTarget} namespace /target 1 ${uuids[0]} xfs`,
  grow: `${nvmeTarget} grow /target 1 448M`,
  attributes: {
    kind: 'nvme-tcp',
    nqn: 'nqn.2026-01.dev.holdfast:target',
    portals: `${storageAddress}:4420`,
    uuid: uuids[0],
  },
};
export const otherNvme: Disk = {
  ...nvme,
  make: `${nvmeTarget} namespace /target 2 ${uuids[1]} ext4`,
  attributes: { ...nvme.attributes, uuid: uuids[1] },
};
export const iscsi: Disk = {
  name: 'iscsi',
  fsType: 'ext4',
  make: `${iscsiTarget} backing /target orders ext4 && ${iscsiTarget} map 0 orders && ${iscsiTarget} chap node twelve-letters target the-other-way`,
  grow: `${iscsiTarget} grow /target orders 448M`,
  attributes: {
    kind: 'iscsi',
    iqn: 'iqn.2026-01.dev.holdfast:target',
    portals: `${storageAddress}:3260`,
    lun: '0',
  },
  secret: {
    'node.session.auth.username': 'node',
    'node.session.auth.password': 'twelve-letters',
    'node.session.auth.username_in': 'target',
    'node.session.auth.password_in': 'the-other-way',
  },
};

/** A PersistentVolume as docs/nvme-tcp.md and docs/iscsi.md have it, with the namespace of its Secret. */
export function persistentVolume(
  name: string,
  { attributes, fsType, secret }: Disk,
  namespace: string,
  isBlock = false,
): Manifest {
  return {
    apiVersion: 'v1',
    kind: 'PersistentVolume',
    metadata: { name },
    spec: {
      capacity: { storage: '300Mi' },
      accessModes: [isBlock ? 'ReadWriteMany' : 'ReadWriteOnce'],
      volumeMode: isBlock ? 'Block' : 'Filesystem',
      persistentVolumeReclaimPolicy: 'Retain',
      storageClassName: 'holdfast-disks',
      csi: {
        driver,
        volumeHandle: name,
        ...(!isBlock && { fsType }),
        volumeAttributes: attributes,
        ...(secret !== undefined && { nodeStageSecretRef: { name: 'chap', namespace } }),
      },
    },
  };
}

export function secretOf({ secret = {} }: Disk): Manifest {
  return { apiVersion: 'v1', kind: 'Secret', metadata: { name: 'chap' }, stringData: secret };
}
