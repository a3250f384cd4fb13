import type { RecordedVolume } from '../kubernetes/persistent-volumes.ts';

/** The note on a node that is gone, for all replicas and over their restarts. */
export interface Gone {
  /** A new id each time that the node goes. */
  readonly id: string;
  /** Time for which it was seen to be gone: never more than the real time. */
  readonly seconds: number;
  /** The value of `seconds` when a deletion last waited for the node. */
  readonly asked: number;
}

/** A note as a replica has read it, and since when it is unchanged, by a monotonic clock. */
export interface Seen {
  readonly gone: Gone;
  readonly sinceMs: number;
}

/** The observations of one replica. */
export interface GoneSight {
  /** True for a node without a Node object, without a link, and not seen since the last look; undefined: not known. */
  readonly isGone: (node: string) => boolean | undefined;
  /** Nodes that a deletion has waited for since the last look. */
  readonly asked: ReadonlySet<string>;
  readonly seen: ReadonlyMap<string, Seen>;
  /** By a monotonic clock. */
  readonly nowMs: number;
  readonly newId: () => string;
}

/** Longest time that counts between two looks: in a longer one the node may have come back unseen. */
export const longestStepMs = 15 * 60_000;

/** Time after the last waiting deletion at which a note is removed. */
const unaskedSeconds = 86_400;

/** Limit of notes. */
const maxGone = 500;

/**
 * Counts for how long nodes are gone. @returns true if anything changed. A replica adds the time since it first read
 * the current note. A change by another replica restarts its measurement, so no time counts twice, independent of
 * clocks, and time without a running controller does not count. So a node may have to be gone for longer than its
 * limit, never shorter.
 */
export function countGone(notes: Map<string, Gone>, { asked, isGone, newId, nowMs, seen }: GoneSight): boolean {
  let hasChanged = false;
  for (const [node, gone] of [...notes]) {
    const isStillGone = isGone(node);
    if (isStillGone === undefined) continue;
    if (!isStillGone || gone.seconds - gone.asked > unaskedSeconds) {
      notes.delete(node);
      hasChanged = true;
      continue;
    }
    const seconds = gone.seconds + unnotedSeconds(gone, seen.get(node), nowMs);
    // Deletions may wait at one replica while the other one counts.
    const after = { ...gone, seconds, asked: asked.has(node) ? seconds : gone.asked };
    if (after.seconds === gone.seconds && after.asked === gone.asked) continue;
    notes.set(node, after);
    hasChanged = true;
  }
  for (const node of asked) {
    if (notes.has(node) || isGone(node) !== true || notes.size >= maxGone) continue;
    notes.set(node, { id: newId(), seconds: 0, asked: 0 });
    hasChanged = true;
  }
  return hasChanged;
}

/** The time for which this replica has seen the note unchanged. */
function unnotedSeconds(gone: Gone, before: Seen | undefined, nowMs: number): number {
  if (before === undefined || !isSame(before.gone, gone)) return 0;
  const stepMs = Math.min(nowMs - before.sinceMs, longestStepMs);
  return Math.max(0, Math.floor(stepMs / 1000));
}

/** Time since when each note is unchanged; read after it was written, and never before. */
export function seenNow(
  notes: ReadonlyMap<string, Gone>,
  before: ReadonlyMap<string, Seen>,
  nowMs: number,
): Map<string, Seen> {
  return new Map(
    [...notes].map(([node, gone]) => {
      const known = before.get(node);
      return [node, known !== undefined && isSame(known.gone, gone) ? known : { gone, sinceMs: nowMs }];
    }),
  );
}

function isSame(one: Gone, other: Gone): boolean {
  return one.id === other.id && one.seconds === other.seconds;
}

/**
 * Returns the node and class whose rule allows the deletion of a volume to succeed: all its PersistentVolumes have that
 * node and class, their claims are deleted, and their reclaim policy is Delete. undefined: the deletion waits for
 * the node.
 */
export function forgettable(
  records: readonly RecordedVolume[],
): { readonly node: string; readonly className: string } | undefined {
  const [first] = records;
  if (first?.node === undefined || first.className === '') return undefined;
  const { className, node } = first;
  const isReleased = records.every(
    (record) =>
      record.phase === 'Released' &&
      record.reclaimPolicy === 'Delete' &&
      record.node === node &&
      record.className === className,
  );
  return isReleased ? { node, className } : undefined;
}
