import type { VolumeHandle } from '../../../volume/handle.ts';
import type { Secrets } from '../../../volume/secrets.ts';
import type { ExecContext } from './context.ts';

/*
 * The arguments of FlexVolume drivers, as the kubelet and the attach-detach controller passed them
 * (kubernetes/community, contributors/devel/sig-storage/flexvolume.md).
 */

export interface FlexVolume {
  readonly handle: VolumeHandle;
  readonly context: ExecContext;
  /** Directory of the mounts of all volumes. */
  readonly mountsDirectory: string;
}

/**
 * The JSON of options. What the kubelet called the PersistentVolume's name is the handle here.
 * @param secrets only for mount
 */
export function flexOptions({ context, handle, mountsDirectory }: FlexVolume, secrets?: Secrets): string {
  const own: Record<string, string> = {
    'kubernetes.io/fsType': context.fsType ?? '',
    'kubernetes.io/readwrite': context.readOnly ? 'ro' : 'rw',
    'kubernetes.io/pvOrVolumeName': handle,
    'kubernetes.io/mountsDir': mountsDirectory,
  };
  for (const name of secrets?.names() ?? []) {
    own[`kubernetes.io/secret/${name}`] = Buffer.from(secrets?.get(name) ?? '').toString('base64');
  }
  return JSON.stringify({ ...own, ...context.options });
}
