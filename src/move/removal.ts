import type { VolumeId } from '../volume/id.ts';
import type { Mover } from './mover.ts';

export type Removals = Pick<Mover, 'forgetDeleted' | 'requireNotComing' | 'settleLeft'>;

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
