import { parseVolumeId, type VolumeId } from '../../../volume/id.ts';
import type { DataRef, SpaceSource, StorageSpace } from '../../backend.ts';
import type { TrashRef } from '../../indexes/trash-entry.ts';
import type { DiskLabel } from './label/disk-label.ts';
import type { ObjectState, StoredObject } from './label/payload.ts';
import { idOfObject } from './names.ts';
import { isIncoming, objectNamed, volumeOf } from './objects.ts';

const taken = 'has its one volume already: delete that, or use another pool.';
const reasons: Readonly<Record<ObjectState, string>> = {
  draft: taken,
  volume: taken,
  trash: 'has one volume, and the deleted one can still be restored (holdfast trash): purge it, or use another pool.',
  removed: 'has one volume, and the deleted one is still being wiped: try again later, or use another pool.',
};

/** The reason why a disk has no room for a volume; the sentence continues after the pool's name. */
export function whyTaken(object: StoredObject): string {
  return isIncoming(object) ? 'receives a volume that moves there.' : reasons[object.state];
}

/** All of the disk, or nothing. Data is named by an id, or by the name of what the disk has. */
export class DiskSpace implements SpaceSource {
  readonly sharesBlocks = false;
  readonly reservedBytes = 0n;
  readonly isForVolumesAlone: true = true;
  readonly #label: Pick<DiskLabel, 'obstacle' | 'payload'>;

  constructor(label: Pick<DiskLabel, 'obstacle' | 'payload'>) {
    this.#label = label;
  }

  /** A volume being wiped is not free yet. */
  async storage(): Promise<StorageSpace> {
    const { obstacle, payload } = this.#label;
    const { data, object } = payload;
    const takenBytes = object === undefined && obstacle === undefined ? 0n : data.lengthBytes;
    return {
      filesystemBytes: data.lengthBytes,
      freeBytes: data.lengthBytes - takenBytes,
      takenBytes,
      isCountedLate: false,
      isOutOfInodes: false,
      obstacle,
      whyFull: object && whyTaken(object),
    };
  }

  idInTrash(ref: TrashRef): VolumeId | undefined {
    return idOfObject(ref);
  }

  async allocatedBytes(data: DataRef): Promise<bigint> {
    const { payload } = this.#label;
    const id = parseVolumeId(data);
    const found = id === undefined ? objectNamed(payload, data) : volumeOf(payload, id);
    return found === undefined ? 0n : payload.data.lengthBytes;
  }
}
