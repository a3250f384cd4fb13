import { readdir, readFile } from 'node:fs/promises';
import { basename } from 'node:path';
import type { Lane } from '../../kernel/lane.ts';
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

export function readVolumes(lane: Lane, layout: Layout): Promise<ReadRecords<VolumeId, VolumeRecord>> {
  return readAll(lane, layout.volumes, parseVolumeId, (id) => layout.record(id), parseRecord);
}

export function readSnapshots(lane: Lane, layout: Layout): Promise<ReadRecords<SnapshotId, SnapshotRecord>> {
  return readAll(lane, layout.snapshots, parseSnapshotId, (id) => layout.snapshotRecord(id), parseSnapshot);
}

export function readGroups(lane: Lane, layout: Layout): Promise<ReadRecords<GroupId, GroupRecord>> {
  const parseName = (name: string) => parseGroupId(basename(name, '.json'));
  return readAll(lane, layout.groups, parseName, (id) => layout.group(id), parseGroup);
}

async function readAll<Id extends string, Kind extends { readonly id: Id }>(
  lane: Lane,
  directory: string,
  parseName: (name: string) => Id | undefined,
  pathOf: (id: Id) => string,
  parse: (text: string, where: string) => Kind,
): Promise<ReadRecords<Id, Kind>> {
  const records: Kind[] = [];
  const damaged: Damaged<Id>[] = [];
  const names = await lane.run(() => readdir(directory));
  await Promise.all(
    names.map(async (name) => {
      const id = parseName(name);
      if (id === undefined) return;
      try {
        const path = pathOf(id);
        const record = parse(await lane.run(() => readFile(path, 'utf8')), path);
        if (record.id === id) records.push(record);
        else damaged.push({ id, reason: `its record names ${record.id}` });
      } catch (error) {
        damaged.push({ id, reason: error instanceof Error ? error.message : String(error) });
      }
    }),
  );
  return { records, damaged };
}
