import { mappedDevice } from '../../../kernel/block/device-mapper.ts';
import { parseVolumeId } from '../../../volume/id.ts';
import type { Seen, SeenVolume } from '../../pool.ts';
import { idOfLvName } from './names.ts';

/** The name of a logical volume of ours, at the end of that of its device: see `mappedName`. */
const lvNameAtEnd = /[^-]-(vol--[a-z2-7]{26}\.[0-9a-f]{8})$/;

/** The volume whose device is seen, in any volume group. */
export function lvmVolumeByName({ device, mount }: Seen): SeenVolume | undefined {
  const mapped = device === undefined ? undefined : mappedDevice(device);
  if (mapped === undefined || !mapped.uuid.startsWith('LVM-')) return undefined;
  const lvName = lvNameAtEnd.exec(mapped.name)?.[1]?.replaceAll('--', '-') ?? '';
  const id = parseVolumeId(idOfLvName(lvName) ?? '');
  return id && { id, isWhole: mount === undefined || mount.root === '/' };
}
