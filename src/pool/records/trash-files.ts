import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { isErrno } from '../../kernel/call/errno.ts';
import type { SnapshotId, VolumeId } from '../../volume/id.ts';
import { parseRecord } from '../../volume/record.ts';
import { parseStored } from '../../volume/stored-json.ts';
import type { TrashContents, TrashEntry } from '../indexes/trash-entry.ts';
import type { Layout } from './layout.ts';

/** Lies beside the record of a volume that is kept in the trash for a time. */
export const deletionFileName = 'deleted.json';

export const storedDeletion = z.strictObject({
  deletedAt: z.iso.datetime(),
  purgeAt: z.iso.datetime(),
  poolAgeMs: z.int().nonnegative().optional(),
  isLeft: z.literal(true).optional(),
});

/** Reads the trash, all of it or the entries of one id; changes nothing. */
export async function readTrash(queue: DiskQueue, layout: Layout, id?: VolumeId | SnapshotId): Promise<TrashContents> {
  const contents: TrashContents = { kept: [], unkept: [], unreadable: [] };
  for (const name of await queue.run(() => readdir(layout.trash))) {
    if (id !== undefined && !name.startsWith(`${id}.`)) continue;
    const path = join(layout.trash, name);
    try {
      const entry = await readEntry(queue, path);
      if (entry === undefined) contents.unkept.push(path);
      else contents.kept.push(entry);
    } catch (error) {
      contents.unreadable.push({ ref: path, error });
    }
  }
  return contents;
}

/** undefined if it is not to be kept. */
async function readEntry(queue: DiskQueue, path: string): Promise<TrashEntry | undefined> {
  const deletionPath = join(path, deletionFileName);
  let text: string;
  try {
    text = await queue.run(() => readFile(deletionPath, 'utf8'));
  } catch (error) {
    if (isErrno(error, 'ENOENT', 'ENOTDIR')) return undefined;
    throw error;
  }
  const recordPath = join(path, 'volume.json');
  const record = parseRecord(await queue.run(() => readFile(recordPath, 'utf8')), recordPath);
  return { ...parseStored(storedDeletion, text, deletionPath), ref: path, record };
}
