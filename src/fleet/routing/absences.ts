/** What is noted of a node that is away, for all replicas and over their restarts. */
export interface Absence {
  /** Date and time. It names the absence, too. */
  readonly since: string;
  /** Claims are told of it. */
  readonly told?: true | undefined;
  /** It is over, and claims are told so. */
  readonly back?: string | undefined;
}

/** What one replica sees. A node links to each of them, so one may see what the other does not. */
export interface AbsenceSight {
  /** Nodes that have been away for long enough, by their names: since when. */
  readonly away: ReadonlyMap<string, number>;
  /** Nodes that have a link, and have told all. */
  readonly there: ReadonlySet<string>;
  /** Absences that nobody has contradicted for long enough. */
  readonly isCertain: (node: string, absence: Absence) => boolean;
  /** The end of an absence that all claims were told of which are to be. */
  readonly isAllTold: (node: string, absence: Absence) => boolean;
  /** Nodes that nobody waits for: an operator has said that they are gone, or nobody knows of them any more. */
  readonly isNobodys: (node: string) => boolean;
  readonly nowMs: number;
}

/** Each kubelet hears of each change of the Secret. When more nodes than that are away, it is not they that are. */
const mostAbsences = 500;

/** So long after its end nobody is told of it any more, whatever happened. */
const endedMs = 60 * 60_000;

/**
 * Brings the notes of absences to what a replica sees; whether anything changed. Claims are told nothing by one look: first
 * the absence is noted, and a replica that has a link to the node takes the note away.
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
      // Away again: that is another absence, and the news of this one's end is none.
      if (isOver || away.has(node) || (there.has(node) && isAllTold(node, absence))) put(node, undefined);
    } else if (there.has(node)) put(node, told === true ? { ...absence, back: dateTime(nowMs) } : undefined);
    else if (told !== true && isCertain(node, absence)) put(node, { ...absence, told: true });
  }
  for (const [node, sinceMs] of away) {
    if (notes.has(node) || isNobodys(node) || notes.size >= mostAbsences) continue;
    put(node, { since: dateTime(sinceMs) });
  }
  return hasChanged;
}

/** To the second. */
export function dateTime(ms: number): string {
  return new Date(ms).toISOString().replace(/\.\d+Z$/, 'Z');
}
