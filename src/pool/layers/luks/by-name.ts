import { mappedDevice } from '../../../kernel/block/device-mapper.ts';
import { volumeOfMapper } from '../../../volume/mapper-name.ts';
import type { Seen, SeenVolume } from '../../pool.ts';

/** The encrypted volume that something seems to be of, by the name alone that the kernel has for its device. */
export function encryptedByName({ device, mount }: Seen): SeenVolume | undefined {
  const mapper = device === undefined ? undefined : mappedDevice(device);
  const id = mapper && volumeOfMapper(mapper.name);
  return id && { id, isWhole: mount === undefined || mount.root === '/' };
}
