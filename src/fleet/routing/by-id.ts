import { parseGroupId, parseSnapshotId, parseVolumeId } from '../../volume/id.ts';
import { requireAllTold, requireLinked } from './missing.ts';
import { ownerOf } from './owner.ts';
import type { FleetView } from './view.ts';

/** The destination of a call. */
export type Route =
  /** One node. */
  | { readonly to: 'node'; readonly node: string }
  /** No known owner, and all nodes have reported: each is asked, and their common answer is true. */
  | { readonly to: 'all'; readonly nodes: readonly string[] }
  /** An id that no fleet can have: any linked node can answer. */
  | { readonly to: 'any'; readonly nodes: readonly string[] };

/**
 * Routes a call for one object. "Not found" is only answered by the nodes, all of them, and never guessed: a node that
 * is away may have the object, and a volume whose deletion succeeded too early would stay for ever.
 * @throws Unavailable, FailedPrecondition
 */
export function routeById(view: FleetView, id: string): Route {
  if (!isOurs(id)) return { to: 'any', nodes: view.nodes.filter(({ isLinked }) => isLinked).map(({ name }) => name) };
  const owner = ownerOf(view, id);
  if (owner !== undefined) {
    requireLinked(owner, id);
    return { to: 'node', node: owner.name };
  }
  requireAllTold(view, id);
  return { to: 'all', nodes: view.nodes.map(({ name }) => name) };
}

function isOurs(id: string): boolean {
  return (parseVolumeId(id) ?? parseSnapshotId(id) ?? parseGroupId(id)) !== undefined;
}
