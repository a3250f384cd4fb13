import { nameText } from './format.ts';
import type { Move, Trashed } from './types.ts';

/** The end of a move by its cancel: it may have arrived before, and its first node or pool may be lost. */
export function cancelOutcome(title: string, { from, isUnseen, state, to, toNode }: Omit<Move, 'node'>): string {
  if (isUnseen === true && toNode !== undefined) {
    return `The move of ${title} to node ${nameText(toNode)} is cancelled. Pool ${nameText(from)} was not looked at: if that comes back, and the volume had not been handed over, it can be used there.`;
  }
  if (isUnseen === true)
    return `The copy of ${title} that had come to pool ${nameText(to)} is removed: where the volume is was not seen.`;
  if (state !== 'done') return `${title} stays in pool ${nameText(from)}.`;
  const place = toNode === undefined ? `in pool ${nameText(to)}` : `on node ${nameText(toNode)}`;
  return `${title} is ${place}: it has arrived there, and its move has ended.`;
}

/** The promise of a restore, before it is ordered. A copy that its volume has left by a move takes a word that the page does not have. */
export function restoreSentence({ left, node, pool }: Pick<Trashed, 'left' | 'node' | 'pool'>): string {
  const place = `pool ${nameText(pool)} of node ${nameText(node)}`;
  const later = `The volume has left this copy in ${place} by a move: it has nothing that was written later. So it is refused as a rule, and the answer names the command by which it is the volume again, if all later ones are lost.`;
  return left === true
    ? later
    : `The volume is again in ${place}, with its id, name and data as they were. Its PersistentVolume and its claim are not made: holdfast export prints them.`;
}

/** A volume that is back, with the problem that its command warns of. */
export function restoreOutcome(
  title: string,
  pool: string,
  { problem }: { readonly problem?: string | undefined },
): string {
  const back = `${title} is back in pool ${nameText(pool)}.`;
  return problem === undefined ? back : `${back} ${nameText(problem)}`;
}
