import type { VolumeRecord } from '../../volume/record.ts';

/** Names something in the trash to its backend. It stays the same for as long as it lies there. */
export type TrashRef = string;

/**
 * When a volume was deleted, and when it is removed permanently; RFC 3339, UTC. Both are for people: the clock may have been
 * wrong. The pool's age then, and the time to keep the volume, are what counts. Drivers that do not know of its
 * age note none: then the time has not begun.
 */
export interface Deletion {
  readonly deletedAt: string;
  readonly purgeAt: string;
  readonly poolAgeMs?: number | undefined;
  /** Its volume went on elsewhere then, and has it no more. Drivers that do not know of this note none: the mark and the notes tell of most. */
  readonly isLeft?: true | undefined;
}

/** A deleted volume that is kept. */
export interface TrashEntry extends Deletion {
  readonly ref: TrashRef;
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

/** The rest of its time; none: it must be removed. */
export function timeLeftMs({ deletedAt, poolAgeMs, purgeAt }: Deletion, nowAgeMs: number): number {
  return (poolAgeMs ?? nowAgeMs) + Date.parse(purgeAt) - Date.parse(deletedAt) - nowAgeMs;
}

/** The clock that gave the time has been put right since, or stood still while the pool was not open. */
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
 * True if it is the original of a repaired volume. An operator must notice, and compare, so its time is never cut
 * short; and as it shares its blocks with the volume, there would be little gained.
 */
export function isOriginal({ deletedAt, record: { name, source } }: Pick<TrashEntry, 'deletedAt' | 'record'>): boolean {
  return source?.type === 'volume' && name.endsWith(originalName('', deletedAt));
}

export interface TrashContents {
  readonly kept: TrashEntry[];
  /** Objects on their way out: nothing says that they must be kept. */
  readonly unkept: TrashRef[];
  /** To be kept, but not readable: left where they are, for a person to look at. */
  readonly unreadable: { readonly ref: TrashRef; readonly error: unknown }[];
}
