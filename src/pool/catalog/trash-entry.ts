import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { isErrno } from '../../kernel/call/errno.ts';
import type { SnapshotId, VolumeId } from '../../volume/id.ts';
import { parseRecord, type VolumeRecord } from '../../volume/record.ts';
import { parseStored } from '../../volume/stored-json.ts';
import type { Layout } from '../records/layout.ts';

/** Lies beside the record of a volume that is kept in the trash for a time. */
export const deletionFileName = 'deleted.json';

const storedDeletion = z.strictObject({
  deletedAt: z.iso.datetime(),
  purgeAt: z.iso.datetime(),
  poolAgeMs: z.int().nonnegative().optional(),
});

/**
 * When a volume was deleted, and when it goes for good; RFC 3339, UTC. Both are for people: the clock may have been
 * wrong. What counts is how old the pool was then, and how long the volume is to be kept. Drivers that do not know of its
 * age note none: then the time has not begun.
 */
export type Deletion = Readonly<z.infer<typeof storedDeletion>>;

/** A deleted volume that is kept. */
export interface TrashEntry extends Deletion {
  readonly path: string;
  readonly record: VolumeRecord;
}

/** In the pool's own time. */
export function deletedNow(keptSeconds: number, poolAgeMs: number): Deletion {
  const nowMs = Date.now();
  return {
    deletedAt: new Date(nowMs).toISOString(),
    purgeAt: new Date(nowMs + keptSeconds * 1000).toISOString(),
    poolAgeMs,
  };
}

/** How much of its time it still has; none: it is to go. */
export function timeLeftMs({ deletedAt, poolAgeMs, purgeAt }: Deletion, nowAgeMs: number): number {
  return (poolAgeMs ?? nowAgeMs) + Date.parse(purgeAt) - Date.parse(deletedAt) - nowAgeMs;
}

/** The clock by which the time was told has been put right since, or stood still while the pool was not open. */
const toldWronglyMs = 60_000;

/** When it goes, by the clock as it is now. */
export function purgeTime(deletion: Deletion, nowAgeMs: number): string {
  const atMs = Date.now() + Math.max(0, timeLeftMs(deletion, nowAgeMs));
  return Math.abs(atMs - Date.parse(deletion.purgeAt)) < toldWronglyMs
    ? deletion.purgeAt
    : new Date(atMs).toISOString();
}

/** The one deleted last first. */
export function byDeletion(a: Deletion, b: Deletion): number {
  return (b.poolAgeMs ?? 0) - (a.poolAgeMs ?? 0) || (a.deletedAt > b.deletedAt ? -1 : 1);
}

/** The name in the trash of what a volume was before its repair. */
export function originalName(name: string, deletedAt: string): string {
  return `${[...name].slice(0, 40).join('')} before its repair of ${deletedAt}`;
}

/**
 * Whether it is what a volume was before its repair. Somebody has to notice, and to compare, so its time is never cut
 * short; and as it shares its blocks with the volume, there would be little gained.
 */
export function isOriginal({ deletedAt, record: { name, source } }: Pick<TrashEntry, 'deletedAt' | 'record'>): boolean {
  return source?.type === 'volume' && name.endsWith(originalName('', deletedAt));
}

export interface TrashContents {
  readonly kept: TrashEntry[];
  /** Directories without the mark: on their way out. */
  readonly unkept: string[];
  /** To be kept, but not readable: left where they are, for a person to look at. */
  readonly unreadable: { readonly path: string; readonly error: unknown }[];
}

/** Reads what lies in the trash, all of it or what had one id; changes nothing. */
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
      contents.unreadable.push({ path, error });
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
  return { ...parseStored(storedDeletion, text, deletionPath), path, record };
}
