import { nameText } from './format.ts';
import type { Move } from './types.ts';

/** The end of a move by its cancel: it may have arrived before, and its first pool may be lost. */
export function cancelOutcome(title: string, { from, state, to, toNode }: Omit<Move, 'node'>): string {
  if (state !== 'done') return `${title} stays in pool ${nameText(from)}.`;
  const place = toNode === undefined ? `in pool ${nameText(to)}` : `on node ${nameText(toNode)}`;
  return `${title} is ${place}: it has arrived there, and its move has ended.`;
}
