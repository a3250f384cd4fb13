import { readdir, readFile } from 'node:fs/promises';
import type { Lane } from '../../kernel/lane.ts';
import { parseVolumeId, type VolumeId } from '../../volume/id.ts';
import { parseRecord, type VolumeRecord } from '../../volume/record.ts';
import type { Layout } from './layout.ts';

/** A directory in volumes/ whose record cannot be read. It is left as it is, and its volume answers with an error. */
export interface DamagedRecord {
  readonly id: VolumeId;
  readonly reason: string;
}

/** Reads every record of a pool. Takes no lock and changes nothing, so the command line may use it too. */
export async function readRecords(
  lane: Lane,
  layout: Layout,
): Promise<{ readonly records: VolumeRecord[]; readonly damaged: DamagedRecord[] }> {
  const records: VolumeRecord[] = [];
  const damaged: DamagedRecord[] = [];
  const names = await lane.run(() => readdir(layout.volumes));
  await Promise.all(
    names.map(async (name) => {
      const id = parseVolumeId(name);
      if (id === undefined) return;
      try {
        const path = layout.record(id);
        const record = parseRecord(await lane.run(() => readFile(path, 'utf8')), path);
        if (record.id === id) records.push(record);
        else damaged.push({ id, reason: `its record names ${record.id}` });
      } catch (error) {
        damaged.push({ id, reason: error instanceof Error ? error.message : String(error) });
      }
    }),
  );
  return { records, damaged };
}
