import { readdir, readFile } from 'node:fs/promises';
import { basename } from 'node:path';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { isErrno } from '../../kernel/call/errno.ts';
import { DataLoss } from '../../volume/errors.ts';
import { fewAtOnce } from '../../volume/flow/few-at-once.ts';
import {
  type GroupId,
  parseGroupId,
  parseSnapshotId,
  parseVolumeId,
  type SnapshotId,
  type VolumeId,
} from '../../volume/id.ts';
import { parseRecord, type VolumeRecord } from '../../volume/record.ts';
import { type GroupRecord, parseGroup, parseSnapshot, type SnapshotRecord } from '../../volume/snapshot-record.ts';
import type { Damaged, ReadRecords, RecordReader } from '../backend.ts';
import type { TrashContents } from '../indexes/trash-entry.ts';
import type { FileParts } from './file-store.ts';
import { isThere } from './gone.ts';
import { readTrash } from './trash-files.ts';

/** The records of a pool whose volumes lie on a filesystem. Reading takes no lock and changes nothing. */
export class FileRecords<Parts extends Pick<FileParts, 'queue' | 'layout'>> implements RecordReader {
  protected readonly parts: Parts;

  constructor(parts: Parts) {
    this.parts = parts;
  }

  readVolumes(): Promise<ReadRecords<VolumeId, VolumeRecord>> {
    const { layout, queue } = this.parts;
    return readAll(queue, layout.volumes, parseVolumeId, (id) => layout.record(id), parseRecord);
  }

  readSnapshots(): Promise<ReadRecords<SnapshotId, SnapshotRecord>> {
    const { layout, queue } = this.parts;
    return readAll(queue, layout.snapshots, parseSnapshotId, (id) => layout.snapshotRecord(id), parseSnapshot);
  }

  readGroups(): Promise<ReadRecords<GroupId, GroupRecord>> {
    const { layout, queue } = this.parts;
    const parseName = (name: string) => parseGroupId(basename(name, '.json'));
    return readAll(queue, layout.groups, parseName, (id) => layout.group(id), parseGroup);
  }

  readVolume(id: VolumeId): Promise<ReadRecords<VolumeId, VolumeRecord>> {
    const { layout, queue } = this.parts;
    return readOne(queue, { id, place: layout.volume(id), path: layout.record(id), parse: parseRecord });
  }

  readSnapshot(id: SnapshotId): Promise<ReadRecords<SnapshotId, SnapshotRecord>> {
    const { layout, queue } = this.parts;
    return readOne(queue, { id, place: layout.snapshot(id), path: layout.snapshotRecord(id), parse: parseSnapshot });
  }

  readGroup(id: GroupId): Promise<ReadRecords<GroupId, GroupRecord>> {
    const { layout, queue } = this.parts;
    return readOne(queue, { id, place: layout.group(id), path: layout.group(id), parse: parseGroup });
  }

  readTrash(id?: VolumeId | SnapshotId): Promise<TrashContents> {
    return readTrash(this.parts.queue, this.parts.layout, id);
  }
}

interface RecordFile<Id, Kind> {
  readonly id: Id;
  /** A path that exists if, and only if, the object does. */
  readonly place: string;
  readonly path: string;
  readonly parse: (text: string, where: string) => Kind;
}

/** @throws what the disk answers */
async function readOne<Id extends string, Kind extends { readonly id: Id }>(
  queue: DiskQueue,
  { id, parse, path, place }: RecordFile<Id, Kind>,
): Promise<ReadRecords<Id, Kind>> {
  if (!(await isThere(queue, place))) return { records: [], damaged: [] };
  try {
    return { records: [await readRecord(queue, id, path, parse)], damaged: [] };
  } catch (error) {
    const isDamaged = error instanceof DataLoss || (error instanceof Error && isErrno(error, 'ENOENT'));
    if (!isDamaged) throw error;
    return { records: [], damaged: [{ id, reason: error.message }] };
  }
}

async function readAll<Id extends string, Kind extends { readonly id: Id }>(
  queue: DiskQueue,
  directory: string,
  parseName: (name: string) => Id | undefined,
  pathOf: (id: Id) => string,
  parse: (text: string, where: string) => Kind,
): Promise<ReadRecords<Id, Kind>> {
  const records: Kind[] = [];
  const damaged: Damaged<Id>[] = [];
  const names = await queue.run(() => readdir(directory));
  await fewAtOnce(names, async (name) => {
    const id = parseName(name);
    if (id === undefined) return;
    try {
      records.push(await readRecord(queue, id, pathOf(id), parse));
    } catch (error) {
      damaged.push({ id, reason: error instanceof Error ? error.message : String(error) });
    }
  });
  return { records, damaged };
}

/** @throws DataLoss */
async function readRecord<Id extends string, Kind extends { readonly id: Id }>(
  queue: DiskQueue,
  id: Id,
  path: string,
  parse: (text: string, where: string) => Kind,
): Promise<Kind> {
  const record = parse(await queue.run(() => readFile(path, 'utf8')), path);
  if (record.id !== id) throw new DataLoss(`its record names ${record.id}`);
  return record;
}
