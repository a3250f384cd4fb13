import { parseGroupId, parseSnapshotId, parseVolumeId } from '../../volume/id.ts';
import { requireAllTold, requireLinked } from './missing.ts';
import { ownerOf } from './owner.ts';
import type { FleetView } from './view.ts';

/** Where a call goes. */
export type Route =
  /** To this node. */
  | { readonly to: 'node'; readonly node: string }
  /** Nobody is known to have it, and all have told: each is asked, and what all say is true. */
  | { readonly to: 'all'; readonly nodes: readonly string[] }
  /** No node of any fleet has such a thing: whoever is there says so. */
  | { readonly to: 'any'; readonly nodes: readonly string[] };

/**
 * Where a call for one object goes. "Not found" is said by the nodes, all of them, and never by a guess: a node that is
 * away may have what nobody else has, and a volume whose deletion was answered too soon would stay for ever.
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
