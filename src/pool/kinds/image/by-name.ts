import { loopBackingPath } from '../../../kernel/block/loop-sysfs.ts';
import type { DeviceNumber } from '../../../kernel/device.ts';
import { type VolumeId, volumeIdInPath } from '../../../volume/id.ts';
import { seenVolume } from '../../device-content.ts';
import type { Seen, SeenVolume } from '../../pool.ts';

/** The volume that the device, or the mount, seems to belong to. */
export function imageByName(seen: Seen): SeenVolume | undefined {
  const id = seen.device === undefined ? undefined : volumeByPath(seen.device);
  return id && seenVolume(id, seen);
}

/** The volume that a device shows the image of. */
export function volumeByPath(device: DeviceNumber): VolumeId | undefined {
  return volumeIdInPath(loopBackingPath(device) ?? '');
}
