import type { TopologyRequirement, TopologySegments } from '../../csi/parse.ts';
import { NotFound, ResourceExhausted, Unavailable } from '../../volume/errors.ts';
import { topologyKey } from '../../volume/topology.ts';
import { describe, requireAllTold, requireLinked } from './missing.ts';
import { ownerOf } from './owner.ts';
import type { FleetView, Named, NodeSight } from './view.ts';

/** The volume may only lie where its source is not. On this code Kubernetes tries another node (Y05, CV29). */
export class SourceElsewhere extends ResourceExhausted {
  /** Where the source is. */
  readonly node: string;

  constructor(what: string, sourceId: string, node: string) {
    super(`${what} cannot be made there: ${sourceId} is on ${node}, and a volume made from it lies beside it.`);
    this.node = node;
  }
}

/** No node is known to have the source, and all have told. */
export class SourceUnknown extends NotFound {}

/** What of a CreateVolume says where it goes. */
export interface Placement {
  readonly name: string;
  readonly sourceId: string | undefined;
  readonly topology: TopologyRequirement | undefined;
}

export interface Candidates {
  /** In this order; the next one is asked when one has no room. Never empty. */
  readonly nodes: readonly string[];
  /** Volumes of this name on nodes where it must not be: a first try, before the claim moved on. */
  readonly strays: readonly Named[];
}

/**
 * Where a volume is made: where one of its name is already, for that is what a first try made; else where its source is;
 * else in the preferred places in their order, then in the requisite ones. Nodes that are away are passed over: one dead
 * node must not hold up claims that may lie anywhere.
 * @throws Unavailable, ResourceExhausted, NotFound, FailedPrecondition
 */
export function routeCreation(view: FleetView, { name, sourceId, topology }: Placement): Candidates {
  const what = `Volume ${JSON.stringify(name)}`;
  const isAllowed = (node: string) => allows(topology, node);
  const named = view.volumesNamed(name);
  const strays = named.filter(({ node }) => !isAllowed(node));
  // Also of one that was made from a source: that may be gone by now, and the volume is there.
  const existing = named.find(({ node }) => isAllowed(node));
  if (existing !== undefined) {
    const node = view.node(existing.node);
    if (node !== undefined) requireLinked(node, what);
    return { nodes: [existing.node], strays };
  }
  if (sourceId !== undefined) {
    const source = sourceNode(view, sourceId, what);
    if (!isAllowed(source.name)) throw new SourceElsewhere(what, sourceId, source.name);
    requireLinked(source, sourceId);
    return { nodes: [source.name], strays };
  }
  const wished = candidates(view, topology);
  const linked = wished.filter(({ isLinked }) => isLinked);
  if (linked.length > 0) return { nodes: linked.map((node) => node.name), strays };
  if (wished.length > 0) throw new Unavailable(`${what} cannot be made now: ${describe(wished)}.`);
  if (!view.areNodesKnown || view.nodes.length === 0) {
    throw new Unavailable(`${what} cannot be made now: no node has a link to the controller; try again.`);
  }
  throw new ResourceExhausted(`${what} cannot be made: no node that it may lie on has the driver.`);
}

function sourceNode(view: FleetView, sourceId: string, what: string): NodeSight {
  const owner = ownerOf(view, sourceId);
  if (owner !== undefined) return owner;
  requireAllTold(view, sourceId);
  throw new SourceUnknown(`${what} cannot be made: no node has its source ${sourceId}.`);
}

function candidates(view: FleetView, topology: TopologyRequirement | undefined): NodeSight[] {
  if (topology === undefined) return [...view.nodes];
  const wished = [...topology.preferred, ...topology.requisite].flatMap((segments) => {
    if (Object.keys(segments).length === 0) return view.nodes;
    const node = view.node(segments[topologyKey] ?? '');
    return node !== undefined && lies(node.name, segments) ? [node] : [];
  });
  // Preferred places without requisite ones forbid nothing (Y03), and a place may be there twice.
  const all = topology.requisite.length > 0 ? wished : [...wished, ...view.nodes];
  return [...new Map(all.map((node) => [node.name, node])).values()];
}

/** Y03: only requisite places forbid others. */
function allows(topology: TopologyRequirement | undefined, node: string): boolean {
  if (topology === undefined || topology.requisite.length === 0) return true;
  return topology.requisite.some((segments) => lies(node, segments));
}

/** A key that is not ours describes a place that no node is known to be in (as `controller/capacity/topology.ts`). */
function lies(node: string, segments: TopologySegments): boolean {
  return Object.entries(segments).every(([key, value]) => key === topologyKey && value === node);
}
