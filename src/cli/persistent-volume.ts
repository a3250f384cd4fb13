import type { AccessMode } from '../volume/capability.ts';
import { claimOf, isClaim, isObjectName, persistentVolumeNameOf } from '../volume/claim.ts';
import type { VolumeRecord } from '../volume/record.ts';
import { exactQuantity } from '../volume/size.ts';
import { topologyKey } from '../volume/topology.ts';

/** The parts of a PersistentVolume that the volume's record does not have. */
export interface ManifestOptions {
  readonly driverName: string;
  readonly nodeId: string;
  readonly reclaimPolicy: ReclaimPolicy;
  readonly storageClass: string | undefined;
}

export type ReclaimPolicy = 'Retain' | 'Delete';

/** A warning for a PersistentVolume without a known storage class. */
export const classIsUnknown =
  'no record knows its storage class, and a claim that names one needs it: add --storage-class';

/** A v1 PersistentVolume, as far as it says anything here. */
export interface PersistentVolume {
  readonly apiVersion: 'v1';
  readonly kind: 'PersistentVolume';
  readonly metadata: { readonly name: string; readonly annotations: Readonly<Record<string, string>> };
  readonly spec: {
    readonly capacity: { readonly storage: string };
    readonly accessModes: readonly string[];
    readonly volumeMode: 'Filesystem' | 'Block';
    readonly persistentVolumeReclaimPolicy: ReclaimPolicy;
    readonly storageClassName?: string;
    readonly claimRef?: {
      readonly apiVersion: 'v1';
      readonly kind: 'PersistentVolumeClaim';
      readonly namespace: string;
      readonly name: string;
    };
    readonly csi: { readonly driver: string; readonly volumeHandle: string; readonly fsType?: string };
    readonly nodeAffinity: {
      readonly required: {
        readonly nodeSelectorTerms: readonly {
          readonly matchExpressions: readonly {
            readonly key: string;
            readonly operator: 'In';
            readonly values: readonly string[];
          }[];
        }[];
      };
    };
  };
}

/** The part of a record that its PersistentVolume shows. */
export type ExportedRecord = Pick<VolumeRecord, 'accessModes' | 'content' | 'id' | 'name' | 'parameters' | 'sizeBytes'>;

/** The volume's PersistentVolume as external-provisioner would have made it. */
export function persistentVolumeOf(record: ExportedRecord, name: string, options: ManifestOptions): PersistentVolume {
  const { driverName, nodeId, reclaimPolicy, storageClass } = options;
  const { content, id, sizeBytes } = record;
  const claim = claimRefOf(record);
  return {
    apiVersion: 'v1',
    kind: 'PersistentVolume',
    // Without it external-provisioner would not feel responsible for deleting the volume.
    metadata: { name, annotations: { 'pv.kubernetes.io/provisioned-by': driverName } },
    spec: {
      capacity: { storage: exactQuantity(sizeBytes) },
      accessModes: kubernetesModes(record.accessModes),
      volumeMode: content.type === 'block' ? 'Block' : 'Filesystem',
      persistentVolumeReclaimPolicy: reclaimPolicy,
      ...(storageClass !== undefined && { storageClassName: storageClass }),
      ...(claim !== undefined && { claimRef: claim }),
      csi: {
        driver: driverName,
        volumeHandle: id,
        ...(content.type === 'mount' && { fsType: content.fsType }),
      },
      nodeAffinity: {
        required: {
          nodeSelectorTerms: [{ matchExpressions: [{ key: topologyKey, operator: 'In', values: [nodeId] }] }],
        },
      },
    },
  };
}

/** The names that the volumes' PersistentVolumes had, or could have; no two alike, and always the same. */
export function manifestNames(records: readonly ExportedRecord[]): string[] {
  const taken = new Set<string>();
  return records.map((record) => {
    const wishes = [persistentVolumeNameOf(record), record.name, record.id];
    const name = wishes.find((wish) => wish !== undefined && isObjectName(wish) && !taken.has(wish)) ?? record.id;
    taken.add(name);
    return name;
  });
}

const modes: Readonly<Record<AccessMode, string>> = {
  SINGLE_NODE_WRITER: 'ReadWriteOnce',
  SINGLE_NODE_MULTI_WRITER: 'ReadWriteOnce',
  SINGLE_NODE_SINGLE_WRITER: 'ReadWriteOncePod',
  SINGLE_NODE_READER_ONLY: 'ReadOnlyMany',
  MULTI_NODE_READER_ONLY: 'ReadOnlyMany',
  MULTI_NODE_SINGLE_WRITER: 'ReadWriteMany',
  MULTI_NODE_MULTI_WRITER: 'ReadWriteMany',
};

/** Kubernetes allows no other mode beside ReadWriteOncePod; where there is one, the pod was not meant to be the only one. */
function kubernetesModes(accessModes: readonly AccessMode[]): string[] {
  const wanted = [...new Set(accessModes.map((mode) => modes[mode]))];
  if (wanted.length === 1) return wanted;
  return [...new Set(wanted.map((mode) => (mode === 'ReadWriteOncePod' ? 'ReadWriteOnce' : mode)))];
}

/** Without the uid, which the claim of a rebuilt cluster does not have. */
function claimRefOf(record: ExportedRecord): PersistentVolume['spec']['claimRef'] {
  const claim = claimOf(record);
  if (claim === undefined || !isClaim(claim)) return undefined;
  return { apiVersion: 'v1', kind: 'PersistentVolumeClaim', ...claim };
}
