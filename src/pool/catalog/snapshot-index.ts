import { DataLoss } from '../../volume/errors.ts';
import type { GroupId, SnapshotId, VolumeId } from '../../volume/id.ts';
import type { GroupRecord, SnapshotRecord } from '../../volume/snapshot-record.ts';
import type { Damaged, ReadRecords } from '../backend.ts';

/** The records of snapshots and groups in memory; as `RecordIndex` for volumes. */
export class SnapshotIndex {
  readonly #snapshots = new Map<SnapshotId, SnapshotRecord>();
  readonly #groups = new Map<GroupId, GroupRecord>();
  readonly #damaged = new Map<string, string>();
  /** Hears of each snapshot that comes or goes. */
  onChange: ((id: SnapshotId, record: SnapshotRecord | undefined) => void) | undefined;

  constructor(
    snapshots: readonly SnapshotRecord[],
    groups: readonly GroupRecord[],
    damaged: readonly Damaged<SnapshotId | GroupId>[],
  ) {
    for (const record of snapshots) this.#snapshots.set(record.id, record);
    for (const record of groups) this.#groups.set(record.id, record);
    for (const { id, reason } of damaged) this.#damaged.set(id, reason);
  }

  /** @throws DataLoss for a snapshot that is there but whose record is damaged */
  get(id: SnapshotId): SnapshotRecord | undefined {
    this.#refuseDamaged(id);
    return this.#snapshots.get(id);
  }

  put(record: SnapshotRecord): void {
    this.#snapshots.set(record.id, record);
    this.onChange?.(record.id, record);
  }

  delete(id: SnapshotId): void {
    this.#snapshots.delete(id);
    this.onChange?.(id, undefined);
  }

  /** @throws DataLoss for a group that is there but whose record is damaged */
  getGroup(id: GroupId): GroupRecord | undefined {
    this.#refuseDamaged(id);
    return this.#groups.get(id);
  }

  /** Readable or not. */
  hasGroup(id: GroupId): boolean {
    return this.#groups.has(id) || this.#damaged.has(id);
  }

  /** Groups none of whose members is there, readable or not. */
  memberless(): GroupRecord[] {
    const isThere = (id: SnapshotId) => this.#snapshots.has(id) || this.#damaged.has(id);
    return [...this.#groups.values()].filter(({ memberIds }) => !memberIds.some(isThere));
  }

  /** Whether a snapshot that names a group has one; of a damaged group we cannot know, so it has. */
  hasItsGroup({ groupId, id }: SnapshotRecord): boolean {
    if (groupId === undefined || this.#damaged.has(groupId)) return true;
    return this.#groups.get(groupId)?.memberIds.includes(id) ?? false;
  }

  putGroup(record: GroupRecord): void {
    this.#groups.set(record.id, record);
  }

  deleteGroup(id: GroupId): void {
    this.#groups.delete(id);
  }

  /** What the disk says now. */
  restateSnapshot(id: SnapshotId, { records, damaged }: ReadRecords<SnapshotId, SnapshotRecord>): void {
    this.#damaged.delete(id);
    for (const { reason } of damaged) this.#damaged.set(id, reason);
    const [record] = records;
    if (record === undefined) this.delete(id);
    else this.put(record);
  }

  restateGroup(id: GroupId, { records, damaged }: ReadRecords<GroupId, GroupRecord>): void {
    this.#groups.delete(id);
    this.#damaged.delete(id);
    for (const record of records) this.#groups.set(id, record);
    for (const { reason } of damaged) this.#damaged.set(id, reason);
  }

  get size(): number {
    return this.#snapshots.size;
  }

  get damagedCount(): number {
    return this.#damaged.size;
  }

  all(): IterableIterator<SnapshotRecord> {
    return this.#snapshots.values();
  }

  list(after: SnapshotId | undefined, limit: number | undefined, sourceId: VolumeId | undefined): SnapshotRecord[] {
    return [...this.#snapshots.values()]
      .filter((record) => sourceId === undefined || record.sourceId === sourceId)
      .filter(({ id }) => after === undefined || id > after)
      .sort((a, b) => (a.id < b.id ? -1 : 1))
      .slice(0, limit);
  }

  #refuseDamaged(id: SnapshotId | GroupId): void {
    const reason = this.#damaged.get(id);
    if (reason !== undefined) throw new DataLoss(`${id}: ${reason}`);
  }
}
