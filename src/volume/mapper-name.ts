import { fileNameOf, type VolumeHandle } from './handle.ts';
import { parseVolumeId, type VolumeId } from './id.ts';

/** The name that the device of an encrypted volume has in device-mapper: the same at each driver and start. */
export function mapperName(handle: VolumeHandle): string {
  return `holdfast-${fileNameOf(handle)}`;
}

/** The volume that a device belongs to; undefined: it belongs to a draft or is not ours. */
export function volumeOfMapper(name: string): VolumeId | undefined {
  return parseVolumeId(/^holdfast-(.*)$/.exec(name)?.[1] ?? '');
}
