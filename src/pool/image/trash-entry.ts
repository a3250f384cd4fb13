import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { isErrno } from '../../kernel/errno.ts';
import type { Lane } from '../../kernel/lane.ts';
import { parseRecord, type VolumeRecord } from '../../volume/record.ts';
import { parseStored } from '../../volume/stored-json.ts';
import type { Layout } from './layout.ts';

/** Lies beside the record of a volume that is kept in the trash for a time. */
export const deletionFileName = 'deleted.json';

const storedDeletion = z.strictObject({ deletedAt: z.iso.datetime(), purgeAt: z.iso.datetime() });

/** When a volume was deleted, and when it goes for good; RFC 3339, UTC. */
export type Deletion = Readonly<z.infer<typeof storedDeletion>>;

/** A deleted volume that is kept. */
export interface TrashEntry extends Deletion {
  readonly path: string;
  readonly record: VolumeRecord;
}

export interface TrashContents {
  readonly kept: TrashEntry[];
  /** Directories without the mark: on their way out. */
  readonly unkept: string[];
  /** To be kept, but not readable: left where they are, for a person to look at. */
  readonly unreadable: { readonly path: string; readonly error: unknown }[];
}

/** Reads what lies in the trash; changes nothing. */
export async function readTrash(lane: Lane, layout: Layout): Promise<TrashContents> {
  const contents: TrashContents = { kept: [], unkept: [], unreadable: [] };
  for (const name of await lane.run(() => readdir(layout.trash))) {
    const path = join(layout.trash, name);
    try {
      const entry = await readEntry(lane, path);
      if (entry === undefined) contents.unkept.push(path);
      else contents.kept.push(entry);
    } catch (error) {
      contents.unreadable.push({ path, error });
    }
  }
  return contents;
}

/** undefined if it is not to be kept. */
async function readEntry(lane: Lane, path: string): Promise<TrashEntry | undefined> {
  const deletionPath = join(path, deletionFileName);
  let text: string;
  try {
    text = await lane.run(() => readFile(deletionPath, 'utf8'));
  } catch (error) {
    if (isErrno(error, 'ENOENT', 'ENOTDIR')) return undefined;
    throw error;
  }
  const recordPath = join(path, 'volume.json');
  const record = parseRecord(await lane.run(() => readFile(recordPath, 'utf8')), recordPath);
  return { ...parseStored(storedDeletion, text, deletionPath), path, record };
}
