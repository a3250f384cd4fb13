import { z } from 'zod';
import type { VolumeContent } from './capability.ts';
import { type Encryption, storedEncryption } from './encryption.ts';
import { type GroupId, parseGroupId, parseSnapshotId, parseVolumeId, type SnapshotId, type VolumeId } from './id.ts';
import { indented, parseStored, storedBytes, storedContent, storedParameters, unreadable } from './stored-json.ts';

/** A pool's durable record of one snapshot. It outlives its source (DS07). */
export interface SnapshotRecord {
  readonly id: SnapshotId;
  readonly name: string;
  readonly sourceId: VolumeId;
  /** The source's size when the snapshot was taken: the minimum for a volume made from it (CS12). */
  readonly sizeBytes: bigint;
  readonly content: VolumeContent;
  readonly blockSizeBytes: number;
  readonly parameters: Readonly<Record<string, string>>;
  /** Time of the snapshot, RFC 3339, UTC; the same on every replay (CS04). */
  readonly createdAt: string;
  /** Set for a member of a group: it exists if, and only if, its group exists. */
  readonly groupId?: GroupId;
  /** The encryption of the source when the snapshot was taken: it opens with the key of that time. */
  readonly encryption?: Encryption;
}

/** A pool's durable record of snapshots that were taken together. */
export interface GroupRecord {
  readonly id: GroupId;
  readonly name: string;
  readonly parameters: Readonly<Record<string, string>>;
  readonly createdAt: string;
  /** The members in the order of their sources' ids. */
  readonly memberIds: readonly SnapshotId[];
}

const format = 1;

const storedSnapshot = z.strictObject({
  format: z.literal(format),
  id: z.string(),
  name: z.string(),
  sourceId: z.string(),
  sizeBytes: storedBytes,
  content: storedContent,
  blockSizeBytes: z.int().positive(),
  parameters: storedParameters,
  createdAt: z.iso.datetime(),
  groupId: z.string().optional(),
  encryption: storedEncryption.optional(),
});

const storedGroup = z.strictObject({
  format: z.literal(format),
  id: z.string(),
  name: z.string(),
  parameters: storedParameters,
  createdAt: z.iso.datetime(),
  memberIds: z.array(z.string()),
});

export function serializeSnapshot(record: SnapshotRecord): string {
  return indented({ format, ...record, sizeBytes: record.sizeBytes.toString() });
}

/** @throws DataLoss if the text is not a whole record of a format that we know */
export function parseSnapshot(text: string, where: string): SnapshotRecord {
  const { format: _format, encryption, groupId: groupText, ...fields } = parseStored(storedSnapshot, text, where);
  const id = parseSnapshotId(fields.id);
  const sourceId = parseVolumeId(fields.sourceId);
  if (id === undefined || sourceId === undefined) throw unreadable(where, 'an id has the wrong shape');
  const record = {
    ...fields,
    id,
    sourceId,
    sizeBytes: BigInt(fields.sizeBytes),
    ...(encryption === undefined ? {} : { encryption }),
  };
  if (groupText === undefined) return record;
  const groupId = parseGroupId(groupText);
  if (groupId === undefined) throw unreadable(where, "its group's id has the wrong shape");
  return { ...record, groupId };
}

export function serializeGroup(record: GroupRecord): string {
  return indented({ format, ...record });
}

/** @throws DataLoss if the text is not a whole record of a format that we know */
export function parseGroup(text: string, where: string): GroupRecord {
  const { format: _format, ...fields } = parseStored(storedGroup, text, where);
  const id = parseGroupId(fields.id);
  const memberIds = fields.memberIds.map(parseSnapshotId).filter((memberId) => memberId !== undefined);
  if (id === undefined || memberIds.length !== fields.memberIds.length) {
    throw unreadable(where, 'an id has the wrong shape');
  }
  return { ...fields, id, memberIds };
}
