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
  try {
    await removeMoved(moves, id, remove);
  } catch (error) {
    if (moves === undefined || !(await moves.settleDeleted(id))) throw error;
    await moves.forgetDeleted(id);
  }
}
