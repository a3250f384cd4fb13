import { storedBytes } from '../../../volume/encryption.ts';
import { DataLoss } from '../../../volume/errors.ts';
import { type GroupId, parseGroupId, type SnapshotId, type VolumeId } from '../../../volume/id.ts';
import { parseRecord, serializeRecord, type VolumeRecord } from '../../../volume/record.ts';
import {
  type GroupRecord,
  parseGroup,
  parseSnapshot,
  type SnapshotRecord,
  serializeGroup,
  serializeSnapshot,
} from '../../../volume/snapshot-record.ts';
import { compact, parseStored } from '../../../volume/stored-json.ts';
import type { WipePolicy } from '../../../volume/wipe-policy.ts';
import type { ReadRecords, RecordStore, Records } from '../../backend.ts';
import { readInto } from '../../indexes/record-index.ts';
import type { Deletion, TrashContents, TrashEntry } from '../../indexes/trash-entry.ts';
import { storedDeletion } from '../../records/trash-files.ts';
import type { GroupState, OwnLv } from './group/group-state.ts';
import type { VolumeGroup } from './group/volume-group.ts';
import { poolLvName } from './names.ts';
import {
  documentNames,
  documentTags,
  type LvState,
  readDocument,
  stateTag,
  tagsOfDocument,
  wipeOf,
  wipeTags,
} from './tags.ts';

/** The logical volumes of LVM's last report. */
export interface LvSource {
  readonly state: Pick<GroupState, 'name'>;
  inState(state: LvState): OwnLv[];
  get(lvName: string): OwnLv | undefined;
}

const recordName = 'record';
const deletionName = 'deleted';
const ageName = 'age';

export function volumeTags(record: VolumeRecord, wipe: WipePolicy | undefined): string[] {
  return [stateTag('volume'), ...wipeTags(wipe), ...documentTags(recordName, compact(serializeRecord(record)))];
}

export function snapshotTags(record: SnapshotRecord, wipe: WipePolicy | undefined): string[] {
  return [stateTag('snapshot'), ...wipeTags(wipe), ...documentTags(recordName, compact(serializeSnapshot(record)))];
}

/** The size in its record; undefined: it has no record that can be read. */
export function recordedBytes({ tags }: Pick<OwnLv, 'tags'>): bigint | undefined {
  const text = readDocument(recordName, tags);
  if (typeof text !== 'string') return undefined;
  try {
    return storedBytes(parseRecord(text, 'in its tags'));
  } catch (error) {
    if (error instanceof DataLoss) return undefined;
    throw error;
  }
}

/** The same logical volume, deleted: in the trash with this note, or on its way out. Its record stays. */
export function tagsWhenDeleted(lv: OwnLv, deletion: Deletion | undefined): string[] {
  const state: LvState = deletion === undefined ? 'removed' : 'trash';
  const note = deletion === undefined ? [] : documentTags(deletionName, JSON.stringify(deletion));
  return [stateTag(state), ...wipeTags(wipeOf(lv.tags)), ...tagsOfDocument(recordName, lv.tags), ...note];
}

export function readRecords(source: LvSource): Records {
  return {
    volumes: readAll<VolumeId, VolumeRecord>(source, 'volume', parseRecord),
    snapshots: readAll<SnapshotId, SnapshotRecord>(source, 'snapshot', parseSnapshot),
    groups: readGroups(source),
  };
}

/** The id of the volume whose record is in the tags; undefined: none, or it cannot be read. */
export function recordIdIn(tags: readonly string[]): VolumeId | undefined {
  try {
    return parseRecord(readDocument(recordName, tags) ?? '', 'in tags').id;
  } catch (error) {
    if (error instanceof DataLoss) return undefined;
    throw error;
  }
}

function readGroups(source: LvSource): ReadRecords<GroupId, GroupRecord> {
  const tags = source.get(poolLvName)?.tags ?? [];
  const read: ReadRecords<GroupId, GroupRecord> = { records: [], damaged: [] };
  for (const name of documentNames('group-', tags)) {
    const id = parseGroupId(name);
    if (id !== undefined) readInto(read, id, () => parseGroup(...documentIn(source, poolLvName, name, tags)));
  }
  return read;
}

export function readLvTrash(source: LvSource, id?: VolumeId | SnapshotId): TrashContents {
  const isWanted = (lv: OwnLv) => id === undefined || lv.id === id;
  const contents: TrashContents = { kept: [], unkept: [], unreadable: [] };
  contents.unkept.push(
    ...source
      .inState('removed')
      .filter(isWanted)
      .map(({ name }) => name),
  );
  for (const lv of source.inState('trash').filter(isWanted)) {
    try {
      contents.kept.push(entryOf(source, lv));
    } catch (error) {
      contents.unreadable.push({ ref: lv.name, error });
    }
  }
  return contents;
}

function entryOf(source: LvSource, { name, tags }: OwnLv): TrashEntry {
  const record = parseRecord(...documentIn(source, name, recordName, tags));
  const deletion = parseStored(storedDeletion, ...documentIn(source, name, deletionName, tags));
  return { ...deletion, ref: name, record };
}

function readAll<Id extends VolumeId | SnapshotId, Kind extends { readonly id: Id }>(
  source: LvSource,
  state: 'volume' | 'snapshot',
  parse: (text: string, where: string) => Kind,
): ReadRecords<Id, Kind> {
  const read: ReadRecords<Id, Kind> = { records: [], damaged: [] };
  for (const { id, name, tags } of source.inState(state)) {
    readInto(read, id as Id, () => {
      const record = parse(...documentIn(source, name, recordName, tags));
      if (record.id === id) return record;
      throw new DataLoss(`The tags of logical volume ${name} are those of ${record.id}. Its data is left as it is.`);
    });
  }
  return read;
}

/** Its text, and what to call it. @throws DataLoss */
function documentIn(source: LvSource, lvName: string, name: string, tags: readonly string[]): [string, string] {
  const where = `in the tags of logical volume ${source.state.name}/${lvName}`;
  const text = readDocument(name, tags);
  if (typeof text === 'string') return [text, where];
  const what = text === null ? 'a part of it is missing' : 'it is missing';
  throw new DataLoss(`The ${name} ${where} cannot be read (${what}). Its data is left as it is.`);
}

/** Records in the tags of logical volumes: one commit of the volume group writes what belongs together. */
export class TagStore implements RecordStore {
  readonly #group: VolumeGroup;

  constructor(group: VolumeGroup) {
    this.#group = group;
  }

  /** With an id, after a failure: the state in memory may be wrong. */
  async read(id?: VolumeId | SnapshotId | GroupId): Promise<Records> {
    if (id !== undefined) await this.#group.refresh();
    return readRecords(this.#group);
  }

  async readTrash(id?: VolumeId | SnapshotId): Promise<TrashContents> {
    if (id !== undefined) await this.#group.refresh();
    return readLvTrash(this.#group, id);
  }

  async writeVolume(record: VolumeRecord): Promise<void> {
    const lv = this.#group.find(record.id);
    if (lv === undefined) throw new DataLoss(`volume ${record.id}: its logical volume is missing.`);
    await this.#group.retag(lv.name, volumeTags(record, wipeOf(lv.tags)));
  }

  async writeGroup(record: GroupRecord): Promise<void> {
    await this.#writeDocument(record.id, compact(serializeGroup(record)));
  }

  async removeGroup(id: GroupId): Promise<void> {
    await this.#writeDocument(id, undefined);
  }

  /** A change of LVM that has ended is on the disk. */
  async sync(): Promise<void> {}

  async readAge(): Promise<string | undefined> {
    return readDocument(ageName, this.#group.get(poolLvName)?.tags ?? []) ?? undefined;
  }

  async writeAge(note: string): Promise<void> {
    await this.#writeDocument(ageName, note);
  }

  async #writeDocument(name: string, text: string | undefined): Promise<void> {
    await this.#group.edit(poolLvName, (tags) => {
      const before = tagsOfDocument(name, tags);
      const others = tags.filter((tag) => !before.includes(tag));
      return [...others, ...(text === undefined ? [] : documentTags(name, text))];
    });
  }
}
