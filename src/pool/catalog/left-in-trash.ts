import { type CopyMark, whyUnusable } from '../../volume/move/rule.ts';
import type { Transfer } from '../backend.ts';
import { isOriginal, type TrashEntry } from '../indexes/trash-entry.ts';
import type { Generations } from './generations.ts';
import { markIn } from './move-mark.ts';

/** True if the volume of a copy in the trash went on elsewhere: the copy is an earlier one. A mark or note that cannot be read may say so. */
export type LeftInTrash = (entry: TrashEntry) => Promise<boolean>;

/** @param transfer undefined: no volume leaves this pool */
export function leftInTrash(
  transfer: Pick<Transfer, 'markInTrash'> | undefined,
  generations: Pick<Generations, 'read'>,
): LeftInTrash {
  // The mark of a copy stays as it is for as long as it lies there.
  const marks = new WeakMap<TrashEntry, CopyMark>();
  return async (entry) => {
    if (transfer === undefined) return false;
    const { isLeft, record, ref } = entry;
    // The note goes with the volume, and a disk that was put back has forgotten the hand-over.
    if (isLeft === true) return true;
    try {
      const mark = marks.get(entry) ?? markIn(await transfer.markInTrash(ref), record.id);
      marks.set(entry, mark);
      return whyUnusable(mark, await generations.read(record.id)) !== undefined;
    } catch {
      return true;
    }
  };
}

/**
 * The entries that may go early when their space is needed, in the same order. A copy that its volume has left may be wanted back if the
 * later one is lost.
 * @param hasLeft undefined: none was left
 */
export async function expendableOf(
  kept: readonly TrashEntry[],
  hasLeft: LeftInTrash | undefined,
): Promise<TrashEntry[]> {
  const entries = kept.filter((entry) => !isOriginal(entry));
  const left = await Promise.all(entries.map((entry) => hasLeft?.(entry)));
  return entries.filter((_entry, at) => left[at] !== true);
}
