import type * as wire from '../../csi/generated/types.ts';
import type { Draft } from '../../csi/handler.ts';
import type { Pool } from '../../pool/pool.ts';
import type { Found } from '../../pool/pools.ts';
import { InvalidArgument } from '../../volume/errors.ts';
import type { GroupRecord, SnapshotRecord } from '../../volume/snapshot-record.ts';
import { presentReadySnapshot, presentTime } from '../present.ts';

/** A group with its members. */
export interface FoundGroup {
  readonly pool: Pool;
  readonly record: Pick<GroupRecord, 'id' | 'createdAt'>;
  readonly members: readonly SnapshotRecord[];
}

/** @throws DataLoss if the record of a member cannot be read */
export async function findGroup(found: Found<GroupRecord> | undefined): Promise<FoundGroup | undefined> {
  if (found === undefined) return undefined;
  const { pool, record } = found;
  const members = await Promise.all(record.memberIds.map((id) => pool.findSnapshot(id)));
  return { pool, record, members: members.filter((member) => member !== undefined) };
}

/** Members are complete when their group exists, so it is ready (GR12). */
export function presentGroup({ members, record }: FoundGroup): Draft<wire.VolumeGroupSnapshot> {
  return {
    group_snapshot_id: record.id,
    snapshots: members.map((member) => presentReadySnapshot(member)),
    creation_time: presentTime(record.createdAt),
    ready_to_use: true,
  };
}

/** A request that names a group must name all of its members, in any order. @throws InvalidArgument (GR16, GR21) */
export function requireMembers({ members, record }: FoundGroup, asked: readonly string[]): void {
  const ids = members.map(({ id }) => id);
  if (new Set(asked).size === ids.length && asked.length === ids.length && ids.every((id) => asked.includes(id)))
    return;
  throw new InvalidArgument(`snapshot_ids must be the members of group ${record.id}, which are ${ids.join(', ')}.`);
}
