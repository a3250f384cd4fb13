import type { Manifest } from '../objects.ts';

/** A class as the examples have it. */
export function storageClass(name: string, parameters: Readonly<Record<string, string>>): Manifest {
  return {
    apiVersion: 'storage.k8s.io/v1',
    kind: 'StorageClass',
    metadata: { name },
    provisioner: 'holdfast.csi.dev',
    volumeBindingMode: 'WaitForFirstConsumer',
    allowVolumeExpansion: true,
    parameters,
  };
}
