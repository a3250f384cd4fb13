import { randomBytes } from 'node:crypto';
import { parseVolumeId, type VolumeId } from '../../../volume/id.ts';

const objectPattern = /^(vol-[a-z2-7]{26})\.[0-9a-f]{8}$/;
const mappedPrefix = 'holdfast-disk-';
const uuidPrefix = 'HOLDFAST-';

/** A new name each time, so that a volume can be made again while its predecessor is still being wiped. */
export function newObjectName(id: VolumeId): string {
  return `${id}.${randomBytes(4).toString('hex')}`;
}

/** undefined: we give no such names. */
export function idOfObject(name: string): VolumeId | undefined {
  return parseVolumeId(objectPattern.exec(name)?.[1] ?? '');
}

/** The name and the UUID of a device of device-mapper. */
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

/** The prefix of the UUID of each device of a pool. */
export function mappedUuidPrefix(poolId: string): string {
  return `${uuidPrefix}${poolId}-`;
}

/** @returns undefined if it is not the device of a disk's data, of any pool */
export function objectOfMapped({ name, uuid }: MappedName): string | undefined {
  if (!uuid.startsWith(uuidPrefix) || !name.startsWith(mappedPrefix)) return undefined;
  const objectName = name.slice(mappedPrefix.length);
  return idOfObject(objectName) === undefined ? undefined : objectName;
}
