import type { VolumeRecord } from './record.ts';

/** The names that external-provisioner passes along with `--extra-create-metadata`. */
const prefix = 'csi.storage.k8s.io/';

/** A PersistentVolumeClaim. */
export interface Claim {
  readonly namespace: string;
  readonly name: string;
}

/** DNS-1123 subdomain: the names of most objects are one. */
const objectName = /^(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;
/** DNS-1123 label: the name of a namespace is one. */
const labelName = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;

export function isObjectName(text: string): boolean {
  return objectName.test(text);
}

/** Checks the names of a claim against the rules of Kubernetes. */
export function isClaim({ name, namespace }: Claim): boolean {
  return labelName.test(namespace) && objectName.test(name);
}

/** The parameters of a volume that is made for a claim. */
export function claimParameters({ name, namespace }: Claim): Record<string, string> {
  return { [`${prefix}pvc/name`]: name, [`${prefix}pvc/namespace`]: namespace };
}

/** The claim that the volume was made for, if CreateVolume named it. */
export function claimOf({ parameters }: Pick<VolumeRecord, 'parameters'>): Claim | undefined {
  const namespace = parameters[`${prefix}pvc/namespace`];
  const name = parameters[`${prefix}pvc/name`];
  return namespace === undefined || name === undefined ? undefined : { namespace, name };
}

/** The name of the PersistentVolume, if CreateVolume named it. */
export function persistentVolumeNameOf({ parameters }: Pick<VolumeRecord, 'parameters'>): string | undefined {
  return parameters[`${prefix}pv/name`];
}
