import { randomBytes } from 'node:crypto';
import { parseSnapshotId, parseVolumeId, type SnapshotId, type VolumeId } from '../../../volume/id.ts';

/** The pool's own logical volume: its identity, its lock, and where its health is tried. */
export const poolLvName = 'holdfast-pool';

/** The thin pool of a pool that has one. */
export const thinLvName = 'holdfast-thin';

const lvNamePattern = /^((?:vol|snap)-[a-z2-7]{26})\.[0-9a-f]{8}$/;

/** A name that nothing has had, so that a volume is made anew while what it was before is still being wiped. */
export function newLvName(id: VolumeId | SnapshotId): string {
  return `${id}.${randomBytes(4).toString('hex')}`;
}

/** undefined: we give no such names. */
export function idOfLvName(name: string): VolumeId | SnapshotId | undefined {
  const text = lvNamePattern.exec(name)?.[1] ?? '';
  return parseVolumeId(text) ?? parseSnapshotId(text);
}

/** As device-mapper names the device of a logical volume: hyphens are doubled, as one stands between the names. */
export function mappedName(vgName: string, lvName: string): string {
  return `${vgName.replaceAll('-', '--')}-${lvName.replaceAll('-', '--')}`;
}

/** The logical volume whose device is named so, if it is one of the volume group. */
export function lvNameOfMapped(vgName: string, name: string): string | undefined {
  const start = `${vgName.replaceAll('-', '--')}-`;
  const rest = name.startsWith(start) ? name.slice(start.length) : '-';
  // That of another group: no logical volume's name begins so.
  return rest.startsWith('-') ? undefined : rest.replaceAll('--', '-');
}

/** What device-mapper, and LVM, put behind the name of what is made of several devices, for each of those. */
const partPattern = /(?:-(?:tpool|real|cow)|_(?:tdata|tmeta|rimage_[0-9]+|rmeta_[0-9]+)(?:-\w+)?)$/;

/** Whether it has a name that we give, or is a part of what has one. */
export function isOwnName(lvName: string): boolean {
  const name = lvName.replace(partPattern, '');
  return name === poolLvName || name === thinLvName || idOfLvName(name) !== undefined;
}

/** What the UUID of such a device begins with. */
export function mappedUuidPrefix(vgUuid: string): string {
  return `LVM-${vgUuid.replaceAll('-', '')}`;
}
