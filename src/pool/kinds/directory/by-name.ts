import { parseVolumeId } from '../../../volume/id.ts';
import type { Seen, SeenVolume } from '../../pool.ts';

/** The volume that a mounted directory seems to be of. Volumes lie in `volumes/<id>/data` (`Layout`). */
export function directoryByName({ mount }: Seen): SeenVolume | undefined {
  const [, name = '', below] = /\/volumes\/(vol-[a-z2-7]{26})\/data(\/.*)?$/.exec(mount?.root ?? '') ?? [];
  const id = parseVolumeId(name);
  return id === undefined ? undefined : { id, isWhole: below === undefined };
}
