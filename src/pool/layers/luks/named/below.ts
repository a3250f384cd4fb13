import type { VolumeOnNode } from '../../../node-side.ts';

/** The key of volume_context, and of the volumeAttributes of a PersistentVolume. */
export const encryptionKey = 'encryption';

export function isEncrypted({ context }: Pick<VolumeOnNode, 'context'>): boolean {
  return context[encryptionKey] !== undefined;
}

/** The volume as the kind below knows it: a raw block device, which holds the ciphertext. */
export function belowNamed(volume: VolumeOnNode): VolumeOnNode {
  if (!isEncrypted(volume)) return volume;
  const { [encryptionKey]: _, ...context } = volume.context;
  return { ...volume, context, content: { type: 'block' } };
}
