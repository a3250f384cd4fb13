import { DataLoss, InternalError } from '../../volume/errors.ts';
import { type GroupId, parseSnapshotId, parseVolumeId, type SnapshotId, type VolumeId } from '../../volume/id.ts';
import { parseRecord, serializeRecord, type VolumeRecord } from '../../volume/record.ts';
import type { GroupRecord } from '../../volume/snapshot-record.ts';
import { compact } from '../../volume/stored-json.ts';
import type { ReadRecords, RecordStore, Records } from '../backend.ts';
import { noRecords, readInto } from '../indexes/record-index.ts';
import type { TrashContents } from '../indexes/trash-entry.ts';
import { type CloudDisk, type CloudLabels, type LabelNames, shortId } from './cloud.ts';
import type { CloudPlace, PoolDisks } from './disks.ts';
import { readRecordLabels, recordLabels } from './record-labels.ts';
import type { PoolSnapshots } from './snapshots.ts';

/** The labels of a volume's disk, the same each time that it is asked for. */
export function labelsOfVolume({ names, poolId }: Pick<CloudPlace, 'names' | 'poolId'>, record: VolumeRecord) {
  return {
    [names.pool]: poolId,
    [names.volume]: record.id,
    ...recordLabels(names.record, compact(serializeRecord({ ...record, createdAt: notYet }))),
  };
}

/** In the place of the time of creation, which has a separate label. */
const notYet = '1970-01-01T00:00:00.000Z';

export function createdLabel({ created }: LabelNames, { createdAt }: VolumeRecord): CloudLabels {
  return { [created]: `${Date.parse(createdAt)}` };
}

/** @throws DataLoss */
export function recordIn({ names, poolName }: CloudPlace, id: VolumeId, disk: CloudDisk): VolumeRecord {
  const where = `of volume ${id} in the labels of ${shortId(disk.id)} (pool ${poolName})`;
  const text = readRecordLabels(names.record, disk.labels);
  if (text === undefined) {
    throw new DataLoss(
      `The record ${where} cannot be read: labels are missing or were changed. The disk is left as it is.`,
    );
  }
  const record = parseRecord(text, where);
  if (record.id !== id) throw new DataLoss(`The record ${where} is of ${record.id}. The disk is left as it is.`);
  const noted = Number(disk.labels[names.created] ?? Number.NaN);
  // A process died before it could note the time.
  const createdAt = new Date(Number.isSafeInteger(noted) ? noted : disk.createdMs).toISOString();
  return { ...record, createdAt };
}

/** Records in the labels of disks and snapshots. They come and go with them. */
export class LabelStore implements RecordStore {
  readonly #disks: PoolDisks;
  readonly #snapshots: PoolSnapshots;

  constructor(disks: PoolDisks, snapshots: PoolSnapshots) {
    this.#disks = disks;
    this.#snapshots = snapshots;
  }

  async read(id?: VolumeId | SnapshotId | GroupId): Promise<Records> {
    return id === undefined ? this.#readAll() : this.#readOne(id);
  }

  async #readAll(): Promise<Records> {
    const read = noRecords();
    for (const [text, disks] of await this.#disks.readAll()) {
      const id = parseVolumeId(text);
      if (id !== undefined) this.#readInto(read.volumes, id, disks);
    }
    return { ...read, snapshots: await this.#snapshots.readAll() };
  }

  async #readOne(id: VolumeId | SnapshotId | GroupId): Promise<Records> {
    const [snapshotId, volumeId] = [parseSnapshotId(id), parseVolumeId(id)];
    const read = noRecords();
    if (volumeId !== undefined) {
      const disk = await this.#disks.find(volumeId);
      this.#readInto(read.volumes, volumeId, disk === undefined ? [] : [disk]);
    }
    return snapshotId === undefined ? read : { ...read, snapshots: await this.#snapshots.read(snapshotId) };
  }

  async readTrash(): Promise<TrashContents> {
    return { kept: [], unkept: [], unreadable: [] };
  }

  async writeVolume(record: VolumeRecord): Promise<void> {
    const { names } = this.#disks.place;
    const pieces = recordLabels(names.record, compact(serializeRecord({ ...record, createdAt: notYet })));
    await this.#disks.label(record.id, { ...pieces, ...createdLabel(names, record) });
  }

  async writeGroup({ id }: GroupRecord): Promise<void> {
    throw new InternalError(`group ${id}: this pool has no groups.`);
  }

  async removeGroup(): Promise<void> {}

  /** A change that the cloud has acknowledged is durable. */
  async sync(): Promise<void> {}

  async readAge(): Promise<undefined> {}

  async writeAge(): Promise<void> {}

  #readInto(read: ReadRecords<VolumeId, VolumeRecord>, id: VolumeId, disks: readonly CloudDisk[]): void {
    const { created } = this.#disks.place.names;
    // One that is being made, or failed then, is found by the next try of its claim. One that failed later is a volume still.
    const [disk, other] = disks.filter(
      ({ labels, state }) => state === 'ready' || (state === 'failed' && labels[created] !== undefined),
    );
    if (disk === undefined) return;
    if (other !== undefined) {
      const reason = `${placeOf(disk)} and ${placeOf(other)} both say that they are it: find out which has the data, and remove the labels of the other`;
      read.damaged.push({ id, reason });
      return;
    }
    readInto(read, id, () => recordIn(this.#disks.place, id, disk));
  }
}

/** Names of disks may differ from zone to zone alone. */
function placeOf({ id, zone }: CloudDisk): string {
  return `${shortId(id)} (${zone})`;
}
