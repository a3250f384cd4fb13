import type { Pool } from '../pool/pool.ts';
import type { Pools } from '../pool/pools.ts';
import type { VolumeId } from '../volume/id.ts';
import { isEarlier, unmarked, whyUnusable } from '../volume/move/rule.ts';

/** A copy of a volume in the trash of this node. */
export interface TrashedHere {
  readonly pool: Pool;
  /** The volume's. */
  readonly name: string;
  readonly createdAt: string;
  readonly deletedAt: string;
  readonly generation: number;
}

/** The copy in the trash of open pools that is restored, which was used last; undefined: there is none. */
export async function latestTrashed(pools: Pools, id: VolumeId): Promise<TrashedHere | undefined> {
  const found = await Promise.all(
    pools.all().map(async (pool) => {
      const trashed = (await pool.trash()).find(({ record }) => record.id === id);
      if (trashed === undefined) return [];
      const { deletedAt, record } = trashed;
      const { generation } = (await pool.moves?.trashedMark(id)) ?? unmarked;
      return [{ ...{ deletedAt, generation, pool }, name: record.name, createdAt: record.createdAt }];
    }),
  );
  // A volume that has moved may lie in the trash of each of its pools. A name may have been used again.
  const [last, ...others] = found.flat().sort((a, b) => (a.deletedAt > b.deletedAt ? -1 : 1));
  let latest = last;
  for (const copy of others) {
    // A clock may have been set back between a move and a deletion: the moves count first.
    const isLater = latest !== undefined && copy.createdAt === last?.createdAt && copy.generation > latest.generation;
    if (isLater) latest = copy;
  }
  return latest;
}

/** A copy, with the volume that it is of: one that had its id before or after it has other copies. */
interface Compared {
  /** undefined: a driver that is older does not say it. */
  readonly createdAt?: string | undefined;
  readonly generation: number;
}

/** True if what the trash has is a later copy of the same volume: a word that makes a copy the volume means that one. */
export function isLaterTrashed<T extends Compared>(latest: T | undefined, copy: Compared): latest is T {
  if (latest === undefined || latest.generation <= copy.generation) return false;
  const [one, other] = [latest.createdAt, copy.createdAt];
  return one === undefined || other === undefined || one === other;
}

/** True if the copy in the trash of a pool is an earlier one than that which its node has handed over last to another node. */
export async function isEarlierInTrash({ moves }: Pool, id: VolumeId): Promise<boolean> {
  if (moves === undefined) return false;
  const [mark = unmarked, noted] = [await moves.trashedMark(id), await moves.noted(id)];
  return isEarlier({ mark, why: whyUnusable(mark, noted.generation) }, noted);
}
