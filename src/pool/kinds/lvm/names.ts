import { randomBytes } from 'node:crypto';
import { parseSnapshotId, parseVolumeId, type SnapshotId, type VolumeId } from '../../../volume/id.ts';

/** The pool's own logical volume: its identity, its lock, and where its health is tried. */
export const poolLvName = 'holdfast-pool';

/** The thin pool of a pool that has one. */
export const thinLvName = 'holdfast-thin';

const lvNamePattern = /^((?:vol|snap)-[a-z2-7]{26})\.[0-9a-f]{8}$/;

/** A new name each time, so that a volume can be made again while its predecessor is still being wiped. */
export function newLvName(id: VolumeId | SnapshotId): string {
  return `${id}.${randomBytes(4).toString('hex')}`;
}

/** undefined: we give no such names. */
export function idOfLvName(name: string): VolumeId | SnapshotId | undefined {
  const text = lvNamePattern.exec(name)?.[1] ?? '';
  return parseVolumeId(text) ?? parseSnapshotId(text);
}

/** The device-mapper name of a logical volume: hyphens are doubled, as one stands between the names. */
export function mappedName(vgName: string, lvName: string): string {
  return `${vgName.replaceAll('-', '--')}-${lvName.replaceAll('-', '--')}`;
}

/** The logical volume whose device is named so, if it is one of the volume group. */
export function lvNameOfMapped(vgName: string, name: string): string | undefined {
  const start = `${vgName.replaceAll('-', '--')}-`;
  const rest = name.startsWith(start) ? name.slice(start.length) : '-';
  // The name of another group: no logical volume's name begins so.
  return rest.startsWith('-') ? undefined : rest.replaceAll('--', '-');
}

/** The suffixes that device-mapper and LVM put behind the name of a composite volume, for each of its parts. */
const partPattern = /(?:-(?:tpool|real|cow)|_(?:tdata|tmeta|rimage_[0-9]+|rmeta_[0-9]+)(?:-\w+)?)$/;

/** True if it has a name that we give, or is a part of a volume with such a name. */
export function isOwnName(lvName: string): boolean {
  const name = lvName.replace(partPattern, '');
  return name === poolLvName || name === thinLvName || idOfLvName(name) !== undefined;
}

/** The prefix of the UUIDs of such devices. */
export function mappedUuidPrefix(vgUuid: string): string {
  return `LVM-${vgUuid.replaceAll('-', '')}`;
}
