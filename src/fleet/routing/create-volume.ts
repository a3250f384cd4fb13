import type { TopologyRequirement, TopologySegments } from '../../csi/parse.ts';
import { NotFound, ResourceExhausted, Unavailable } from '../../volume/errors.ts';
import { topologyKey } from '../../volume/topology.ts';
import { describe, requireAllTold, requireLinked } from './missing.ts';
import { ownerOf } from './owner.ts';
import type { FleetView, Named, NodeSight } from './view.ts';

/** The topology excludes the node of the source. On this code Kubernetes tries another node (Y05, CV29). */
export class SourceElsewhere extends ResourceExhausted {
  /** The node of the source. */
  readonly node: string;

  constructor(what: string, sourceId: string, node: string) {
    super(
      `${what} cannot be made there: ${sourceId} is on ${node}, and a volume made from it must be on the same node.`,
    );
    this.node = node;
  }
}

/** No node is known to have the source, and all have reported. */
export class SourceUnknown extends NotFound {}

/** The parts of a CreateVolume that decide its place. */
export interface Placement {
  readonly name: string;
  readonly sourceId: string | undefined;
  readonly topology: TopologyRequirement | undefined;
}

export interface Candidates {
  /** In the order of preference; the next one is asked when one has no room. Never empty. */
  readonly nodes: readonly string[];
  /** Volumes with this name on excluded nodes: an earlier try made them, before the claim moved on. */
  readonly strays: readonly Named[];
}

/**
 * Chooses the nodes for a new volume: the node that has its name already, as an earlier try made that; else the node of
 * its source; else the preferred topologies in their order, then the requisite ones. Nodes that are away are skipped:
 * one dead node must not hold up claims that may lie anywhere.
 * @throws Unavailable, ResourceExhausted, NotFound, FailedPrecondition
 */
export function routeCreation(view: FleetView, { name, sourceId, topology }: Placement): Candidates {
  const what = `Volume ${JSON.stringify(name)}`;
  const isAllowed = (node: string) => allows(topology, node);
  const named = view.volumesNamed(name);
  const strays = named.filter(({ node }) => !isAllowed(node));
  // Comes before the check of the source, which may be gone by now although the volume exists.
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
  // Preferred topologies without requisite ones forbid nothing (Y03), and a topology may be listed twice.
  const all = topology.requisite.length > 0 ? wished : [...wished, ...view.nodes];
  return [...new Map(all.map((node) => [node.name, node])).values()];
}

/** Y03: only requisite topologies exclude others. */
function allows(topology: TopologyRequirement | undefined, node: string): boolean {
  if (topology === undefined || topology.requisite.length === 0) return true;
  return topology.requisite.some((segments) => lies(node, segments));
}

/** No node is known to lie in a topology with another key (the same rule as in `controller/capacity/topology.ts`). */
function lies(node: string, segments: TopologySegments): boolean {
  return Object.entries(segments).every(([key, value]) => key === topologyKey && value === node);
}
