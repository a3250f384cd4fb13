import type { Pool } from '../../pool/pool.ts';
import type { Found, Pools } from '../../pool/pools.ts';
import { Aborted } from '../../volume/errors.ts';
import type { VolumeRecord } from '../../volume/record.ts';
import type { SnapshotRecord } from '../../volume/snapshot-record.ts';

/**
 * The largest number of entries in one answer: an entry has at most 300 bytes, and clients take 4 MiB. More follow
 * under next_token.
 */
const largestPage = 10_000;

export interface PageRequest<Id> {
  /** Only ids greater than this. */
  readonly after: Id | undefined;
  readonly maximumEntries: number;
}

export interface Page<Kind> {
  readonly entries: readonly Found<Kind>[];
  readonly nextToken: string;
}

/**
 * Parses a request. A token is the last id of the page before. It stays valid when the object of that id is deleted,
 * and no remaining object is shown twice or left out (N02).
 * @throws Aborted for any other token: the caller lists again from the start (LV02, LS07)
 */
export function parsePageRequest<Id>(
  startingToken: string,
  maxEntries: number,
  parseId: (text: string) => Id | undefined,
): PageRequest<Id> {
  const after = startingToken === '' ? undefined : parseId(startingToken);
  if (startingToken !== '' && after === undefined) {
    throw new Aborted('starting_token is not from this listing: list again without a token.');
  }
  return { after, maximumEntries: maxEntries === 0 ? largestPage : Math.min(maxEntries, largestPage) };
}

/**
 * Returns a page of the objects of all pools, by id. `list` reads one pool: ids greater than the first argument, at
 * most the given number.
 * @throws Unavailable if a pool is not open: a list without its objects would say that they are gone (LV04)
 */
export async function readPage<Id, Kind extends (SnapshotRecord | VolumeRecord) & { readonly id: Id }>(
  pools: Pools,
  { after, maximumEntries }: PageRequest<Id>,
  list: (pool: Pool, after: Id | undefined, limit: number) => Promise<Kind[]>,
): Promise<Page<Kind>> {
  pools.requireSettled([]);
  // Any pool may have to fill the page alone, and one more entry shows that another page follows.
  const lists = await Promise.all(
    pools.names().map(async (name) => {
      const pool = pools.getKnown(name);
      return (await list(pool, after, maximumEntries + 1)).map((record) => ({ pool, record }));
    }),
  );
  const all = await pools.withoutLeft(lists.flat().sort((a, b) => (a.record.id < b.record.id ? -1 : 1)));
  const entries = all.slice(0, maximumEntries);
  return { entries, nextToken: all.length > entries.length ? `${entries.at(-1)?.record.id}` : '' };
}
