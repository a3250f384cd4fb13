import { isNfs } from '../../../kernel/nfs/unmount.ts';
import { parseVolumeId } from '../../../volume/id.ts';
import type { Seen, SeenVolume } from '../../pool.ts';

/** The volume that a mount of NFS seems to be of. Volumes lie in `volumes/<id>/data` (`Layout`). */
export function nfsByName({ mount }: Seen): SeenVolume | undefined {
  if (mount === undefined || !isNfs(mount)) return undefined;
  // The kernel shows the whole path of a mounted directory as its source, and / as its root.
  const [, name = '', below] = /\/volumes\/(vol-[a-z2-7]{26})\/data(\/.*)?$/.exec(mount.source) ?? [];
  const id = parseVolumeId(name);
  return id === undefined ? undefined : { id, isWhole: below === undefined };
}
