import type { ToldMove } from './fleet-moves.ts';

export interface Answered {
  /** Nodes that say that they have the volume. */
  readonly having: ReadonlySet<string>;
  /** Nodes whose answer is missing. */
  readonly silent: ReadonlySet<string>;
  /** Other nodes that its PersistentVolumes name, and that may have it although they do not say so. */
  readonly recorded: readonly string[];
  /** The moves of the volume that nodes report, the oldest first. */
  readonly moves: readonly ToldMove[];
  readonly isNative: (node: string) => boolean;
}

/**
 * The node that surely has the volume, as its PersistentVolume may name it; undefined: that is not certain. A node that
 * is away matters only if the volume may have moved from it, or to it.
 */
export function sureNode({ having, isNative, moves, recorded, silent }: Answered): string | undefined {
  const [node, ...others] = having;
  if (node === undefined || others.length > 0) return undefined;
  const last = moves.at(-1);
  const cameFrom = last?.node === node && last.move.state === 'done' ? last.move.fromNode : undefined;
  // The copy here may be of before the move to that node: all the disks may have been put back.
  if (recorded.some((each) => each !== cameFrom)) return undefined;
  if (silent.size === 0) return node;
  if (last === undefined) return isNative(node) ? node : undefined;
  if (cameFrom !== undefined) return node;
  const ends = moves.flatMap((told) => [told.node, told.move.fromNode ?? '', told.move.toNode ?? '']);
  return ends.some((end) => silent.has(end)) ? undefined : node;
}
