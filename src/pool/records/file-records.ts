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
import { parseRecord } from '../../volume/record.ts';
import { parseGroup, parseSnapshot } from '../../volume/snapshot-record.ts';
import type { Damaged, ReadRecords, RecordReader, Records } from '../backend.ts';
import { noRecords } from '../indexes/record-index.ts';
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

  async read(id?: VolumeId | SnapshotId | GroupId): Promise<Records> {
    return id === undefined ? this.#readAll() : this.#readOne(id);
  }

  async #readAll(): Promise<Records> {
    const { layout, queue } = this.parts;
    const groupIn = (name: string) => parseGroupId(basename(name, '.json'));
    return {
      volumes: await readAll(queue, layout.volumes, parseVolumeId, (id) => layout.record(id), parseRecord),
      snapshots: await readAll(
        queue,
        layout.snapshots,
        parseSnapshotId,
        (id) => layout.snapshotRecord(id),
        parseSnapshot,
      ),
      groups: await readAll(queue, layout.groups, groupIn, (id) => layout.group(id), parseGroup),
    };
  }

  async #readOne(id: VolumeId | SnapshotId | GroupId): Promise<Records> {
    const { layout, queue } = this.parts;
    const [groupId, snapshotId, volumeId] = [parseGroupId(id), parseSnapshotId(id), parseVolumeId(id)];
    const read = noRecords();
    if (volumeId !== undefined) {
      const path = layout.record(volumeId);
      await readInto(read.volumes, queue, { id: volumeId, place: layout.volume(volumeId), path, parse: parseRecord });
    }
    if (snapshotId !== undefined) {
      const [path, place] = [layout.snapshotRecord(snapshotId), layout.snapshot(snapshotId)];
      await readInto(read.snapshots, queue, { id: snapshotId, place, path, parse: parseSnapshot });
    }
    if (groupId !== undefined) {
      const path = layout.group(groupId);
      await readInto(read.groups, queue, { id: groupId, place: path, path, parse: parseGroup });
    }
    return read;
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
async function readInto<Id extends string, Kind extends { readonly id: Id }>(
  read: ReadRecords<Id, Kind>,
  queue: DiskQueue,
  { id, parse, path, place }: RecordFile<Id, Kind>,
): Promise<void> {
  if (!(await isThere(queue, place))) return;
  try {
    read.records.push(await readRecord(queue, id, path, parse));
  } catch (error) {
    const isDamaged = error instanceof DataLoss || (error instanceof Error && isErrno(error, 'ENOENT'));
    if (!isDamaged) throw error;
    read.damaged.push({ id, reason: error.message });
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
