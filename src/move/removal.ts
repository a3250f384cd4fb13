import type { FoundVolume, Pools } from '../pool/pools.ts';
import type { VolumeId } from '../volume/id.ts';
import type { Mover } from './mover.ts';

export type Removals = Pick<Mover, 'forgetDeleted' | 'requireNotComing' | 'settleLeft'>;
export type Deletions = Removals & Pick<Mover, 'settleDeleted'>;

/**
 * Removes a volume from its pool, permanently or to another place. No copy that it has left becomes the volume then, and no move of it
 * goes on. The caller has claimed it.
 * @param moves undefined: its volumes do not move
 * @throws Unavailable while it is moving here from another node, or a copy that it has left stays
 */
export async function removeMoved<T>(moves: Removals | undefined, id: VolumeId, remove: () => Promise<T>): Promise<T> {
  await moves?.requireNotComing(id);
  await moves?.settleLeft(id);
  const removed = await remove();
  await moves?.forgetDeleted(id);
  return removed;
}

/** Deletes a volume, or the copy in a pool that was away as its volume was deleted. The same errors, and the caller has claimed it. */
export async function deleteMoved(
  moves: Deletions | undefined,
  id: VolumeId,
  remove: () => Promise<void>,
): Promise<void> {
  await unlessSettled(moves, id, () => removeMoved(moves, id, remove));
}

/**
 * Finds a volume for its deletion; undefined: there is none, or it was deleted while the pools with copies of it were away, and those are in the
 * trash now. The caller has claimed it.
 * @throws the same errors as `Pools.find`
 */
export function findDeleted(
  pools: Pools,
  moves: Deletions | undefined,
  id: VolumeId,
): Promise<FoundVolume | undefined> {
  return unlessSettled(moves, id, () => pools.find(id));
}

/** Where the work fails for copies that a deleted volume has left, they go to the trash instead. */
async function unlessSettled<T>(
  moves: Deletions | undefined,
  id: VolumeId,
  work: () => Promise<T>,
): Promise<T | undefined> {
  try {
    return await work();
  } catch (error) {
    if (moves === undefined || !(await moves.settleDeleted(id))) throw error;
    await moves.forgetDeleted(id);
    return undefined;
  }
}
