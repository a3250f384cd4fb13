import { FailedPrecondition } from '../../volume/errors.ts';
import { type Route, routeById } from './by-id.ts';
import { requireLinked } from './missing.ts';
import { ownerOf } from './owner.ts';
import type { FleetView, Named } from './view.ts';

/**
 * Routes a new snapshot: to the node that has its name already, even for another volume, as that node answers; else to
 * the node of its source.
 * @throws Unavailable, FailedPrecondition
 */
export function routeSnapshot(view: FleetView, name: string, sourceId: string): Route {
  return made(view, view.snapshotsNamed(name)) ?? routeById(view, sourceId);
}

/**
 * The same for a group. @throws FailedPrecondition if its volumes lie on several nodes, which share no instant (GR08)
 */
export function routeGroup(view: FleetView, name: string, sourceIds: readonly string[]): Route {
  const existing = made(view, view.groupsNamed(name));
  if (existing !== undefined) return existing;
  const places = sourceIds.map((id) => ({ id, node: ownerOf(view, id)?.name }));
  const nodes = new Set(places.flatMap(({ node }) => node ?? []));
  if (nodes.size > 1) {
    const where = places.slice(0, 4).map(({ id, node }) => `${id} is on ${node ?? 'none'}`);
    const more = places.length > where.length ? ', …' : '';
    throw new FailedPrecondition(
      `Volumes of several nodes cannot be snapshotted at one instant (${where.join(', ')}${more}): group volumes of one node.`,
    );
  }
  // A volume without a known owner comes first: its node, or all nodes, answer that it is missing.
  const unknown = places.find(({ node }) => node === undefined);
  return routeById(view, unknown?.id ?? sourceIds[0] ?? '');
}

/** Routes a call for a group; its members show its node, even if the group itself is half deleted. */
export function routeGroupById(view: FleetView, id: string, memberIds: readonly string[]): Route {
  const known = [id, ...memberIds].find((one) => view.owners(one).length > 0);
  return routeById(view, known ?? id);
}

function made(view: FleetView, [first]: readonly Named[]): Route | undefined {
  if (first === undefined) return undefined;
  const node = view.node(first.node);
  if (node !== undefined) requireLinked(node, first.id);
  return { to: 'node', node: first.node };
}
