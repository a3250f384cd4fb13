import { convertManifest } from './convert.ts';
import { successorOfNfs } from './nfs-persistent-volume.ts';
import type { Output } from './output/output.ts';

/** `holdfast convert-nfs`: PersistentVolumes of this driver for those on NFS of others. @param file the path, or - */
export function convertNfsCommand(output: Output, file: string): number {
  return convertManifest(output, file, {
    wanted: 'PersistentVolume of csi-driver-nfs, or with nfs',
    convert: successorOfNfs,
  });
}
