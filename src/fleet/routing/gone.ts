import type { RecordedVolume } from '../kubernetes/persistent-volumes.ts';

/** What is noted of a node that is gone, for all replicas and over their restarts. */
export interface Gone {
  /** Another one each time that the node goes. */
  readonly id: string;
  /** So long it was seen to be gone: never more than it was. */
  readonly seconds: number;
  /** The seconds when a deletion last waited for it. */
  readonly asked: number;
}

/** A note as a replica has seen it, and since when it stands so: by a clock that is never set. */
export interface Seen {
  readonly gone: Gone;
  readonly sinceMs: number;
}

/** What one replica sees. */
export interface GoneSight {
  /** A node whose Node is no more, which has no link, and was not there since the last look; undefined: it is not known. */
  readonly isGone: (node: string) => boolean | undefined;
  /** Nodes that a deletion has waited for since the last look. */
  readonly asked: ReadonlySet<string>;
  readonly seen: ReadonlyMap<string, Seen>;
  /** By a clock that is never set. */
  readonly nowMs: number;
  readonly newId: () => string;
}

/** Between two looks that are farther apart nobody has seen whether the node came back: the rest is not counted. */
export const longestStepMs = 15 * 60_000;

/** A node that no deletion has waited for in so long is counted no more. */
const unaskedSeconds = 86_400;

/** Deletions wait for so many at a time. */
const mostGone = 500;

/**
 * Counts how long nodes are gone; whether anything changed. A replica adds the time since it first saw the note as it is. What
 * another one has written meanwhile makes it begin again, so no time counts twice, whatever clocks say, and time in which
 * no controller ran counts for nothing. It may only become longer than it should be.
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
    // Deletions wait at one replica, and maybe the other one counts.
    const after = { ...gone, seconds, asked: asked.has(node) ? seconds : gone.asked };
    if (after.seconds === gone.seconds && after.asked === gone.asked) continue;
    notes.set(node, after);
    hasChanged = true;
  }
  for (const node of asked) {
    if (notes.has(node) || isGone(node) !== true || notes.size >= mostGone) continue;
    notes.set(node, { id: newId(), seconds: 0, asked: 0 });
    hasChanged = true;
  }
  return hasChanged;
}

/** For how long this replica has seen the note as it is. */
function unnotedSeconds(gone: Gone, before: Seen | undefined, nowMs: number): number {
  if (before === undefined || !isSame(before.gone, gone)) return 0;
  const stepMs = Math.min(nowMs - before.sinceMs, longestStepMs);
  return Math.max(0, Math.floor(stepMs / 1000));
}

/** Since when each note stands as it is now; read after it was written, and never before. */
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
 * The node whose end, and the class by whose words, the deletion of a volume could be answered: what stands for it are
 * PersistentVolumes of that node and class alone, whose claims are deleted and which are to be deleted themselves.
 * undefined: it waits for its node.
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
