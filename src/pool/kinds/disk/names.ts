import { randomBytes } from 'node:crypto';
import { parseVolumeId, type VolumeId } from '../../../volume/id.ts';

const objectPattern = /^(vol-[a-z2-7]{26})\.[0-9a-f]{8}$/;
const mappedPrefix = 'holdfast-disk-';
const uuidPrefix = 'HOLDFAST-';

/** A name that nothing has had, so that a volume is made anew while what it was before is still being wiped. */
export function newObjectName(id: VolumeId): string {
  return `${id}.${randomBytes(4).toString('hex')}`;
}

/** undefined: we give no such names. */
export function idOfObject(name: string): VolumeId | undefined {
  return parseVolumeId(objectPattern.exec(name)?.[1] ?? '');
}

/** What a device of device-mapper is called, and whose it is. */
export interface MappedName {
  readonly name: string;
  readonly uuid: string;
}

/** The device through which the label of a pool is read and written. */
export function labelDevice(poolId: string): MappedName {
  return { name: `${mappedPrefix}${poolId}`, uuid: `${mappedUuidPrefix(poolId)}label` };
}

/** The device of what a disk has in it. */
export function dataDevice(poolId: string, objectName: string): MappedName {
  return { name: `${mappedPrefix}${objectName}`, uuid: `${mappedUuidPrefix(poolId)}${objectName}` };
}

/** What the UUID of each device of a pool begins with. */
export function mappedUuidPrefix(poolId: string): string {
  return `${uuidPrefix}${poolId}-`;
}

/** @returns undefined if it is not the device of a disk's data, of whichever pool */
export function objectOfMapped({ name, uuid }: MappedName): string | undefined {
  if (!uuid.startsWith(uuidPrefix) || !name.startsWith(mappedPrefix)) return undefined;
  const objectName = name.slice(mappedPrefix.length);
  return idOfObject(objectName) === undefined ? undefined : objectName;
}
