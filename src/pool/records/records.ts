import { readdir, readFile } from 'node:fs/promises';
import { basename } from 'node:path';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { isErrno } from '../../kernel/call/errno.ts';
import { DataLoss } from '../../volume/errors.ts';
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
import { isThere } from './gone.ts';
import type { Layout } from './layout.ts';

/** Something whose record cannot be read. It is left as it is, and calls for it answer with an error. */
export interface Damaged<Id> {
  readonly id: Id;
  readonly reason: string;
}

export interface ReadRecords<Id, Kind> {
  readonly records: Kind[];
  readonly damaged: Damaged<Id>[];
}

/** These read all records of a kind. They take no lock and change nothing, so the command line may use them too. */

export function readVolumes(queue: DiskQueue, layout: Layout): Promise<ReadRecords<VolumeId, VolumeRecord>> {
  return readAll(queue, layout.volumes, parseVolumeId, (id) => layout.record(id), parseRecord);
}

export function readSnapshots(queue: DiskQueue, layout: Layout): Promise<ReadRecords<SnapshotId, SnapshotRecord>> {
  return readAll(queue, layout.snapshots, parseSnapshotId, (id) => layout.snapshotRecord(id), parseSnapshot);
}

export function readGroups(queue: DiskQueue, layout: Layout): Promise<ReadRecords<GroupId, GroupRecord>> {
  const parseName = (name: string) => parseGroupId(basename(name, '.json'));
  return readAll(queue, layout.groups, parseName, (id) => layout.group(id), parseGroup);
}

/** These read one record again; without any if what it is of is not there. */

export function readVolume(
  queue: DiskQueue,
  layout: Layout,
  id: VolumeId,
): Promise<ReadRecords<VolumeId, VolumeRecord>> {
  return readOne(queue, { id, place: layout.volume(id), path: layout.record(id), parse: parseRecord });
}

export function readSnapshot(
  queue: DiskQueue,
  layout: Layout,
  id: SnapshotId,
): Promise<ReadRecords<SnapshotId, SnapshotRecord>> {
  return readOne(queue, { id, place: layout.snapshot(id), path: layout.snapshotRecord(id), parse: parseSnapshot });
}

export function readGroup(queue: DiskQueue, layout: Layout, id: GroupId): Promise<ReadRecords<GroupId, GroupRecord>> {
  return readOne(queue, { id, place: layout.group(id), path: layout.group(id), parse: parseGroup });
}

interface RecordFile<Id, Kind> {
  readonly id: Id;
  /** What is there if, and only if, the object is. */
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
  await Promise.all(
    names.map(async (name) => {
      const id = parseName(name);
      if (id === undefined) return;
      try {
        records.push(await readRecord(queue, id, pathOf(id), parse));
      } catch (error) {
        damaged.push({ id, reason: error instanceof Error ? error.message : String(error) });
      }
    }),
  );
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
