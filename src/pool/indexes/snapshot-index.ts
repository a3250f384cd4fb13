import type { GroupId, SnapshotId } from '../../volume/id.ts';
import type { GroupRecord, SnapshotRecord } from '../../volume/snapshot-record.ts';
import type { ReadRecords } from '../backend.ts';
import { RecordIndex } from './record-index.ts';

/** The records of snapshots in memory, and of the groups that they are in. */
export class SnapshotIndex extends RecordIndex<SnapshotId, SnapshotRecord> {
  readonly groups: RecordIndex<GroupId, GroupRecord>;

  constructor(snapshots: ReadRecords<SnapshotId, SnapshotRecord>, groups: ReadRecords<GroupId, GroupRecord>) {
    super('snapshot', snapshots);
    this.groups = new RecordIndex('group', groups);
  }

  /** Groups none of whose members is there, readable or not. */
  memberless(): GroupRecord[] {
    return [...this.groups.all()].filter(({ memberIds }) => !memberIds.some((id) => this.has(id)));
  }

  /** True if a snapshot that names a group has one; of a damaged group we cannot know, so it has. */
  hasItsGroup({ groupId, id }: SnapshotRecord): boolean {
    if (groupId === undefined || this.groups.isDamaged(groupId)) return true;
    return this.groups.get(groupId)?.memberIds.includes(id) ?? false;
  }
}
