import { parseVolumeId, type VolumeId } from './id.ts';

/** The name that the device of an encrypted volume has in device-mapper: the same at each driver and start. */
export function mapperName(id: VolumeId): string {
  return `holdfast-${id}`;
}

/** The volume that a device belongs to; undefined: it belongs to a draft or is not ours. */
export function volumeOfMapper(name: string): VolumeId | undefined {
  return parseVolumeId(/^holdfast-(.*)$/.exec(name)?.[1] ?? '');
}
