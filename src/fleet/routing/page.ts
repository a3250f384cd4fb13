import { requireAllTold } from './missing.ts';
import type { FleetView } from './view.ts';

/** The nodes that a page of a listing comes from, and the number of entries of each. */
export interface PagePlan {
  readonly parts: readonly { readonly node: string; readonly maximumEntries: number }[];
  /** The last id of the page; undefined: the listing ends with it. */
  readonly upTo: string | undefined;
}

/**
 * Plans a page of the objects of all nodes, by id. A token is the last id of the page before, as for a single node: so
 * it stays valid when nodes come and go, and no remaining object is shown twice or left out (N02).
 * @param ids the ids that each node has reported
 * @throws Unavailable if a node's report is incomplete: a list without its objects would say that they are gone (LV04)
 */
export function planPage(
  view: FleetView,
  ids: ReadonlyMap<string, readonly string[]>,
  page: { readonly after: string | undefined; readonly maximumEntries: number },
): PagePlan {
  requireAllTold(view, 'The list');
  const { after = '', maximumEntries } = page;
  const later = [...ids].flatMap(([node, own]) => own.filter((id) => id > after).map((id) => ({ id, node })));
  later.sort((a, b) => (a.id < b.id ? -1 : 1));
  const counts = new Map<string, number>();
  for (const { node } of later.slice(0, maximumEntries)) counts.set(node, (counts.get(node) ?? 0) + 1);
  const parts = [...counts].map(([node, count]) => ({ node, maximumEntries: count }));
  return { parts, upTo: later.length > maximumEntries ? later[maximumEntries - 1]?.id : undefined };
}

/** A part of a page, as a node returned it. */
export interface PagePart<Entry> {
  readonly entries: readonly { readonly id: string; readonly entry: Entry }[];
  readonly nextToken: string;
}

/**
 * Merges the parts. New objects of a node may have displaced planned ones: the page then ends earlier, where that
 * node's part ends, and the next page begins there.
 */
export function mergePage<Entry>(
  parts: readonly PagePart<Entry>[],
  { upTo }: PagePlan,
): { readonly entries: Entry[]; readonly nextToken: string } {
  const ends = parts.flatMap(({ entries, nextToken }) => (nextToken === '' ? [] : [entries.at(-1)?.id ?? '']));
  const end = [...ends, ...(upTo === undefined ? [] : [upTo])].sort()[0];
  const all = parts.flatMap(({ entries }) => entries).sort((a, b) => (a.id < b.id ? -1 : 1));
  const shown = all.filter(({ id }) => end === undefined || id <= end);
  return { entries: shown.map(({ entry }) => entry), nextToken: end ?? '' };
}
