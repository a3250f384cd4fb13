import { parseVolumeId } from '../../volume/id.ts';
import type { Seen, SeenVolume } from '../pool.ts';
import { volumeByPath } from './image/devices-by-path.ts';

/**
 * The volume that something seems to be of, by the names alone that the kernel has for it: no disk is asked, and the
 * volume's pool need not be open. Volumes lie in `volumes/<id>/data`, whichever kind their pool is of.
 */
export function volumeByName({ device, mount }: Seen): SeenVolume | undefined {
  const shown = device === undefined ? undefined : volumeByPath(device);
  if (shown !== undefined) return { id: shown, isWhole: mount === undefined || mount.root === '/' };
  const [, name = '', below] = /\/volumes\/(vol-[a-z2-7]{26})\/data(\/.*)?$/.exec(mount?.root ?? '') ?? [];
  const id = parseVolumeId(name);
  return id === undefined ? undefined : { id, isWhole: below === undefined };
}
