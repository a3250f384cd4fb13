import type { ToldMove } from './fleet-moves.ts';

export interface Answered {
  /** Nodes that say that they have the volume. */
  readonly having: ReadonlySet<string>;
  /** Nodes whose answer is missing. */
  readonly silent: ReadonlySet<string>;
  /** The moves of the volume that nodes report, the oldest first. */
  readonly moves: readonly ToldMove[];
  readonly isNative: (node: string) => boolean;
}

/**
 * The node that surely has the volume, as its PersistentVolume may name it; undefined: that is not certain. A node that
 * is away matters only if the volume may have moved from it, or to it.
 */
export function sureNode({ having, isNative, moves, silent }: Answered): string | undefined {
  const [node, ...others] = having;
  if (node === undefined || others.length > 0) return undefined;
  if (silent.size === 0) return node;
  const last = moves.at(-1);
  if (last === undefined) return isNative(node) ? node : undefined;
  if (last.node === node && last.move.fromNode !== undefined && last.move.state === 'done') return node;
  const ends = moves.flatMap((told) => [told.node, told.move.fromNode ?? '', told.move.toNode ?? '']);
  return ends.some((end) => silent.has(end)) ? undefined : node;
}
