import { DataLoss, InternalError } from '../../../volume/errors.ts';
import type { GroupId, SnapshotId, VolumeId } from '../../../volume/id.ts';
import type { VolumeRecord } from '../../../volume/record.ts';
import type { GroupRecord } from '../../../volume/snapshot-record.ts';
import type { ReadRecords, RecordReader, RecordStore, Records } from '../../backend.ts';
import { noRecords, readInto } from '../../indexes/record-index.ts';
import type { TrashContents } from '../../indexes/trash-entry.ts';
import type { DiskLabel } from './label/disk-label.ts';
import { idOf, type Payload, recordOf, storedRecord } from './label/payload.ts';
import { changeObject } from './objects.ts';

/** The records in a label, wherever it was read. */
function readRecords({ object, poolId }: Payload): ReadRecords<VolumeId, VolumeRecord> {
  const read: ReadRecords<VolumeId, VolumeRecord> = { records: [], damaged: [] };
  const id = object?.state === 'volume' ? idOf(object) : undefined;
  if (object === undefined || id === undefined) return read;
  readInto(read, id, () => {
    const record = recordOf(object, whereOf(poolId));
    if (record.id === id) return record;
    throw new DataLoss(`The label of ${id} has the record of ${record.id}.`);
  });
  return read;
}

function readLabelTrash({ object, poolId }: Payload, id?: VolumeId | SnapshotId): TrashContents {
  const contents: TrashContents = { kept: [], unkept: [], unreadable: [] };
  if (object === undefined || (id !== undefined && idOf(object) !== id)) return contents;
  const { deletion, name: ref, state } = object;
  if (state === 'removed') contents.unkept.push(ref);
  if (state !== 'trash') return contents;
  try {
    if (deletion === undefined) throw new DataLoss(`${ref} has no time at which it was deleted.`);
    contents.kept.push({ ...deletion, ref, record: recordOf(object, whereOf(poolId)) });
  } catch (error) {
    contents.unreadable.push({ ref, error });
  }
  return contents;
}

function whereOf(poolId: string): string {
  return `in the label of pool ${poolId}`;
}

/** For programs that only look. */
export function readerOf(payload: Payload): RecordReader {
  return {
    read: async () => ({ ...noRecords(), volumes: readRecords(payload) }),
    readTrash: async () => readLabelTrash(payload),
  };
}

/** The record of what the disk has, in its label: written as a whole, with its state. */
export class LabelStore implements RecordStore {
  readonly #label: DiskLabel;

  constructor(label: DiskLabel) {
    this.#label = label;
  }

  /** With an id, after a failure: the state in memory may be wrong. */
  async read(id?: VolumeId | SnapshotId | GroupId): Promise<Records> {
    if (id !== undefined) await this.#label.refresh();
    return { ...noRecords(), volumes: readRecords(this.#label.payload) };
  }

  async readTrash(id?: VolumeId | SnapshotId): Promise<TrashContents> {
    if (id !== undefined) await this.#label.refresh();
    return readLabelTrash(this.#label.payload, id);
  }

  async writeVolume(record: VolumeRecord): Promise<void> {
    await changeObject(this.#label, record.id, 'volume', (object) => ({ ...object, record: storedRecord(record) }));
  }

  async writeGroup(_record: GroupRecord): Promise<void> {
    throw new InternalError('there are no groups on a disk.');
  }

  async removeGroup(): Promise<void> {}

  sync(): Promise<void> {
    return this.#label.refresh();
  }

  async readAge(): Promise<string | undefined> {
    return this.#label.payload.age;
  }

  async writeAge(age: string): Promise<void> {
    await this.#label.change((payload) => ({ ...payload, age }));
  }
}
