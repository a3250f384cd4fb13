import { mappedDevice } from '../../../kernel/block/device-mapper.ts';
import type { Seen, SeenVolume } from '../../pool.ts';
import { idOfObject, objectOfMapped } from './names.ts';

/** The volume whose device is seen, on any disk. */
export function diskVolumeByName({ device, mount }: Seen): SeenVolume | undefined {
  const mapped = device === undefined ? undefined : mappedDevice(device);
  const id = mapped && idOfObject(objectOfMapped(mapped) ?? '');
  return id && { id, isWhole: mount === undefined || mount.root === '/' };
}
