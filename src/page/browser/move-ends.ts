import { claimOr } from './format.ts';
import type { Move, Tables } from './types.ts';

/** The ends of a move: pools of its node, or of two nodes. */
export function endsOf({ from, fromNode, node, to, toNode }: Move): { readonly from: string; readonly to: string } {
  if (fromNode !== undefined) return { from: `${fromNode}/${from}`, to: `${node}/${to}` };
  return toNode === undefined ? { from, to } : { from: `${node}/${from}`, to: toNode };
}

/** The volume that moves, by its claim if it has one; it is on the node that it leaves, or on the other one already. */
export function titleOf({ fromNode, id, node }: Move, { volumes }: Pick<Tables, 'volumes'>): string {
  const volume = volumes.get(`${fromNode ?? node}/${id}`) ?? volumes.get(`${node}/${id}`);
  return volume === undefined ? id : claimOr(volume);
}

/** Both nodes tell of a move between them: the one that the volume goes to knows more. */
export function toldOnce(moves: Tables['moves']): [key: string, move: Move][] {
  const arriving = new Set([...moves.values()].map(({ fromNode, id, node }) => `${fromNode} ${node} ${id}`));
  return [...moves].filter(
    ([, { id, node, toNode }]) => toNode === undefined || !arriving.has(`${node} ${toNode} ${id}`),
  );
}
