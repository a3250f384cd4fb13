import { dateTime } from '../kubernetes/date-time.ts';
/** The note on a node that is away, for all replicas and over their restarts. */
export interface Absence {
  /** Date and time. It identifies the absence, too. */
  readonly since: string;
  /** Claims have events about it. */
  readonly told?: true | undefined;
  /** The end of the absence, of which claims have events. */
  readonly back?: string | undefined;
}

/** The observations of one replica. A node links to each of them, so their observations differ. */
export interface AbsenceSight {
  /** Nodes that have been away for long enough, by their names, with the time since when. */
  readonly away: ReadonlyMap<string, number>;
  /** Nodes that have a link, and have reported all. */
  readonly there: ReadonlySet<string>;
  /** Answers if no replica has contradicted the absence for long enough. */
  readonly isCertain: (node: string, absence: Absence) => boolean;
  /** Answers if all claims have an event about the end of the absence. */
  readonly isAllTold: (node: string, absence: Absence) => boolean;
  /** Answers if the node is not expected: an operator has declared it gone, or it is unknown. */
  readonly isNobodys: (node: string) => boolean;
  readonly nowMs: number;
}

/**
 * Limit of notes: each kubelet receives each change of the Secret. If more nodes seem to be away, the cause is
 * elsewhere.
 */
const maxAbsences = 500;

/** Time after the end of an absence at which its events stop. */
const endedMs = 60 * 60_000;

/**
 * Updates the notes of absences to a replica's observations. @returns true if anything changed. One look alone causes
 * no events: first the absence is noted, and a replica that has a link to the node removes the note.
 */
export function settleAbsences(notes: Map<string, Absence>, sight: AbsenceSight): boolean {
  const { away, isAllTold, isCertain, isNobodys, nowMs, there } = sight;
  let hasChanged = false;
  const put = (node: string, absence: Absence | undefined) => {
    hasChanged = true;
    if (absence === undefined) notes.delete(node);
    else notes.set(node, absence);
  };
  for (const [node, absence] of [...notes]) {
    const { back, told } = absence;
    if (isNobodys(node)) put(node, undefined);
    else if (back !== undefined) {
      const isOver = nowMs - Date.parse(back) > endedMs;
      // The node is away again: that is a new absence, and the end of this one is not reported.
      if (isOver || away.has(node) || (there.has(node) && isAllTold(node, absence))) put(node, undefined);
    } else if (there.has(node)) put(node, told === true ? { ...absence, back: dateTime(nowMs) } : undefined);
    else if (told !== true && isCertain(node, absence)) put(node, { ...absence, told: true });
  }
  for (const [node, sinceMs] of away) {
    if (notes.has(node) || isNobodys(node) || notes.size >= maxAbsences) continue;
    put(node, { since: dateTime(sinceMs) });
  }
  return hasChanged;
}
