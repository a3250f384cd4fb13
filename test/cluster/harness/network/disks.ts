import { randomBytes } from 'node:crypto';
import type { Manifest } from '../objects.ts';
import { iscsiTarget, nvmeTarget, storageAddress } from './network-cluster.ts';

export const asked = { storageClass: 'holdfast-disks', size: '300Mi' } as const;
const driver = 'disks.holdfast.csi.dev';
const secretName = 'disk';
const uuids = ['01', '02', '03', '04'].map((end) => `11111111-2222-4333-8444-5555555555${end}`);
const [uuid = '', otherUuid = '', pathsUuid = '', encryptedUuid = ''] = uuids;

export interface Disk {
  readonly name: string;
  readonly fsType: string;
  /** On the machine with the servers. */
  readonly make: string;
  readonly attributes: Readonly<Record<string, string>>;
  readonly secret?: Readonly<Record<string, string>>;
}

interface GrowingDisk extends Disk {
  /** On that machine, too. */
  readonly grow: string;
}

/** A disk with two portals, of which the second one can be cut. */
interface DiskOfTwoPaths extends Disk {
  /** Shows on a node the state of each of its connections, a line for each. */
  readonly states: string;
  /** The state of one that works. */
  readonly works: string;
  /** Shows on a node the UUIDs of the devices of device-mapper that a volume in use has. */
  readonly mapped: RegExp;
}

export const nvme: GrowingDisk = {
  name: 'nvme-tcp',
  fsType: 'xfs',
  make: `${nvmeTarget} namespace /target 1 ${uuid} xfs`,
  grow: `${nvmeTarget} grow /target 1 448M`,
  attributes: {
    kind: 'nvme-tcp',
    nqn: 'nqn.2026-01.dev.holdfast:target',
    portals: `${storageAddress}:4420`,
    uuid,
  },
};
export const otherNvme: GrowingDisk = {
  ...nvme,
  make: `${nvmeTarget} namespace /target 2 ${otherUuid} ext4`,
  attributes: { ...nvme.attributes, uuid: otherUuid },
};
export const iscsi: GrowingDisk = {
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

const nvmePaths = {
  states: 'grep -l tcp /sys/class/nvme/*/transport | sed "s/transport/state/" | xargs cat',
  works: 'live',
} as const;
const portalsOfNvme = `${storageAddress}:4420,${storageAddress}:4422`;
export const nvmeOfTwoPaths: DiskOfTwoPaths = {
  ...nvmePaths,
  name: 'nvme-tcp-paths',
  fsType: 'ext4',
  make: `${nvmeTarget} namespace /target 3 ${pathsUuid} ext4`,
  mapped: /^$/,
  attributes: { ...nvme.attributes, uuid: pathsUuid, portals: portalsOfNvme },
};
export const encryptedOfTwoPaths: DiskOfTwoPaths = {
  ...nvmePaths,
  name: 'encrypted-paths',
  fsType: 'ext4',
  make: `${nvmeTarget} namespace /target 4 ${encryptedUuid} blank`,
  mapped: /^CRYPT-LUKS2-\S+$/,
  attributes: { ...nvme.attributes, uuid: encryptedUuid, portals: portalsOfNvme, encryption: 'luks2' },
  secret: { key: randomBytes(32).toString('base64') },
};
export const iscsiOfTwoPaths: DiskOfTwoPaths = {
  name: 'iscsi-paths',
  fsType: 'xfs',
  make: `${iscsiTarget} backing /target paths xfs && ${iscsiTarget} map 1 paths`,
  states: 'cat /sys/class/iscsi_session/*/state',
  works: 'LOGGED_IN',
  mapped: /^mpath-\S+$/,
  attributes: { ...iscsi.attributes, lun: '1', portals: `${storageAddress}:3260,${storageAddress}:3261` },
  secret: iscsi.secret ?? {},
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
        ...(secret !== undefined && { nodeStageSecretRef: { name: secretName, namespace } }),
      },
    },
  };
}

export function secretOf({ secret = {} }: Disk): Manifest {
  return { apiVersion: 'v1', kind: 'Secret', metadata: { name: secretName }, stringData: secret };
}
