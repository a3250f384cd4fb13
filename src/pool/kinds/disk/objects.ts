import { DataLoss } from '../../../volume/errors.ts';
import type { VolumeId } from '../../../volume/id.ts';
import type { DiskLabel } from './label/disk-label.ts';
import { idOf, type ObjectState, type Payload, type StoredObject } from './label/payload.ts';

/** The disk's object, if it is a volume with this id: neither a draft nor on its way out. */
export function volumeOf({ object }: Payload, id: VolumeId): StoredObject | undefined {
  return object?.state === 'volume' && idOf(object) === id ? object : undefined;
}

/** True of a draft that comes from another pool: neither the next start nor a call clears it away, but its move alone. */
export function isIncoming({ incoming, state }: StoredObject): boolean {
  return state === 'draft' && incoming !== undefined;
}

/** The disk's object, if it has this name. */
export function objectNamed({ object }: Payload, name: string): StoredObject | undefined {
  return object?.name === name ? object : undefined;
}

/** Changes the disk's object in one commit, if it is the one that is meant. @throws DataLoss if it is not */
export async function changeObject(
  label: DiskLabel,
  wanted: VolumeId | string,
  state: ObjectState,
  edit: (object: StoredObject) => StoredObject | undefined,
): Promise<void> {
  await label.change((payload) => {
    const { object } = payload;
    if (object === undefined || object.state !== state || (object.name !== wanted && idOf(object) !== wanted)) {
      throw new DataLoss(`${wanted} is not on its disk as a ${state}: its label says otherwise.`);
    }
    return { ...payload, object: edit(object) };
  });
}
