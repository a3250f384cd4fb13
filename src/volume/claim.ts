import type { VolumeRecord } from './record.ts';

/** The names that external-provisioner passes along with `--extra-create-metadata`. */
const prefix = 'csi.storage.k8s.io/';

/** A PersistentVolumeClaim. */
export interface Claim {
  readonly namespace: string;
  readonly name: string;
}

/** The claim that the volume was made for, if its maker said so. */
export function claimOf({ parameters }: Pick<VolumeRecord, 'parameters'>): Claim | undefined {
  const namespace = parameters[`${prefix}pvc/namespace`];
  const name = parameters[`${prefix}pvc/name`];
  return namespace === undefined || name === undefined ? undefined : { namespace, name };
}

/** The name of the PersistentVolume, if its maker said so. */
export function persistentVolumeNameOf({ parameters }: Pick<VolumeRecord, 'parameters'>): string | undefined {
  return parameters[`${prefix}pv/name`];
}
