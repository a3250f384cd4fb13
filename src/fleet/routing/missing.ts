import { Unavailable } from '../../volume/errors.ts';
import { toTheSecond } from './since.ts';
import type { FleetView, NodeSight } from './view.ts';

export const nodesUnknown = 'Kubernetes has not said yet which nodes have the driver';

/** Limit of names in a message. */
const maxNames = 3;

/** Answers if a node is linked and has reported everything, from all of its pools. */
export function isAllTold({ closedPools, hasTold, isLinked }: NodeSight): boolean {
  return hasTold && isLinked && closedPools.length === 0;
}

/** The nodes with incomplete reports: an object without a known owner could be theirs. */
export function untold(view: FleetView): NodeSight[] {
  return view.nodes.filter((node) => !isAllTold(node));
}

/** @throws Unavailable unless every node with the driver has reported everything */
export function requireAllTold(view: FleetView, what: string): void {
  if (!view.areNodesKnown) {
    throw new Unavailable(`${what}: ${nodesUnknown}; try again.`);
  }
  const missing = untold(view);
  if (missing.length > 0) throw new Unavailable(`${what}: no node that is there has it, and ${describe(missing)}.`);
}

/** @throws Unavailable that names the node */
export function requireLinked(node: NodeSight, what: string): void {
  if (!node.isLinked) throw new Unavailable(`${what} is on a node that does not answer: ${describe([node])}.`);
}

/** `node-1 is away since …`, for the first few nodes. */
export function describe(missing: readonly NodeSight[]): string {
  const named = missing.slice(0, maxNames).map(({ closedPools, hasTold, isLinked, name, sinceMs }) => {
    if (!isLinked) return `${name} is away since ${toTheSecond(sinceMs)}`;
    const [closed] = closedPools;
    if (!hasTold || closed === undefined) return `${name} has not reported all its volumes yet`;
    return closed.isOpening
      ? `pool ${closed.name} of ${name} is being opened`
      : `pool ${closed.name} of ${name} is not open (mend it, or take it out of that node's configuration)`;
  });
  const others = missing.length - named.length;
  return [...named, ...(others > 0 ? [`so are ${others} more`] : [])].join(', ');
}
