import type { Namespace } from '../namespace.ts';

/** A class of ours whose claims are bound without a pod, for as long as the test. */
export async function makeImmediateClass(namespace: Namespace): Promise<AsyncDisposable & { readonly name: string }> {
  const name = `${namespace.name}-immediate`;
  await namespace.apply({
    apiVersion: 'storage.k8s.io/v1',
    kind: 'StorageClass',
    metadata: { name },
    provisioner: 'holdfast.csi.dev',
    volumeBindingMode: 'Immediate',
    allowVolumeExpansion: true,
  });
  return { name, [Symbol.asyncDispose]: () => namespace.remove(`storageclass/${name}`) };
}
