import { FailedPrecondition, Unavailable } from '../../volume/errors.ts';
import { describe, isAllTold, nodesUnknown, untold } from './missing.ts';
import type { FleetView, NodeSight, Owner, RecordedNode } from './view.ts';

/**
 * A node has an object, reports are missing, and the object may be on one of those nodes by now: another node has made it, or
 * its PersistentVolume names another node.
 */
export class OwnerInDoubt extends Unavailable {
  readonly id: string;
  readonly owners: readonly Owner[];

  constructor(id: string, owner: Owner, text: string) {
    super(text);
    this.id = id;
    this.owners = [owner];
  }
}

/**
 * Several nodes have an object, and each may be the one: in the moment in which a volume moves; or one of them, which may have made it,
 * has an earlier state of it, as all its disks were put back. Its PersistentVolumes may say which one has it.
 */
export class SeveralOwners extends FailedPrecondition {
  readonly id: string;
  readonly owners: readonly Owner[];

  constructor(id: string, owners: readonly Owner[]) {
    const nodes = owners.map(({ node }) => node).join(' and ');
    super(
      `${id} is on ${nodes}: one of them must not have it, and its PersistentVolumes do not name one of them alone. Look at both; nothing is done.`,
    );
    this.id = id;
    this.owners = owners;
  }
}

/**
 * Finds the node that has the object, linked or not; undefined: no node claims it.
 *
 * An id derives from the name of the node that made it, so a claim of that node is true, if no other one claims the same and the
 * PersistentVolumes name no node whose report is missing. A node that claims an id of another one is trusted, as volumes and disks are
 * moved, if all nodes have reported or the PersistentVolumes name it: so a node that lies draws no calls away from another. Of several
 * nodes with a volume the one counts that the PersistentVolumes name; without any, the one that made it.
 * @throws SeveralOwners if several have it, OwnerInDoubt if reports are missing and it could belong to another node
 */
export function ownerOf(view: FleetView, id: string): NodeSight | undefined {
  const owners = view.owners(id);
  const isVolume = owners.some((owner) => owner.isVolume);
  const recorded = view.recorded(id);
  const named = owners.find(({ node }) => isNamed(node, recorded));
  if (named !== undefined) return view.node(named.node);
  const native = owners.filter(({ isNative }) => isNative);
  // A snapshot has the same bytes on each of them.
  const believed = native.length > 0 && (!isVolume || recorded?.length === 0) ? native : owners;
  if (believed.length > 1) throw new SeveralOwners(id, believed);
  const [owner] = believed;
  if (owner === undefined) return undefined;
  const doubt = owner.isNative ? doubtOfNative(view, owner, id, recorded) : doubtOfForeign(view, owner, id);
  if (doubt !== undefined) throw new OwnerInDoubt(id, owner, doubt);
  return view.node(owner.node);
}

/** Answers if there are PersistentVolumes, and all name the node. */
export function isNamed(node: string, recorded: readonly RecordedNode[] = []): boolean {
  return recorded.length > 0 && recorded.every((each) => each === node);
}

/**
 * The node that has made a volume may have been put back to a time before it moved: to a node that its PersistentVolume names,
 * and that has not reported.
 * @param recorded undefined: they are not known, and any silent node may be the one
 */
function doubtOfNative(
  view: FleetView,
  { isVolume, node }: Owner,
  id: string,
  recorded: readonly RecordedNode[] | undefined,
): string | undefined {
  if (!isVolume) return undefined;
  if (recorded === undefined) {
    return !view.areNodesKnown || view.isAnySilent(node) ? `the PersistentVolume of ${id} is not known yet` : undefined;
  }
  const named = silentNamed(view, recorded, node);
  if (named.length === 0) return undefined;
  const names = named.map(({ name }) => name).join(' and ');
  return (
    `${id} is on node ${node}, which made it, and its PersistentVolume names ${names}, where it may be by now: ${named.map(({ why }) => why).join(', ')}. ` +
    'Try again when that node is there; if it will not come back: holdfast forget-node.'
  );
}

/** A node that may have a volume, although it does not say so. */
interface Silent {
  readonly name: string;
  readonly why: string;
}

/** The nodes of the PersistentVolumes of a volume that have not reported all they have, besides the one that has it. */
export function silentNamed(view: FleetView, recorded: readonly RecordedNode[], besides: string): Silent[] {
  return [...new Set(recorded)].flatMap((name) => {
    if (name === undefined || name === besides) return [];
    const sight = view.node(name);
    if (sight !== undefined) return isAllTold(sight) ? [] : [{ name, why: describe([sight]) }];
    if (!view.areNodesKnown) return [{ name, why: nodesUnknown }];
    return view.isForgotten(name) ? [] : [{ name, why: `${name} is not there` }];
  });
}

/** A closed pool holds back what may be in it, and nothing that another node is known to have made. */
function doubtOfForeign(view: FleetView, owner: Owner, id: string): string | undefined {
  const all = untold(view);
  if (all.length === 0 && view.areNodesKnown) return undefined;
  const origin = view.originOf(owner, id);
  const missing = all.filter(
    ({ hasTold, isLinked, name }) => origin === undefined || origin === name || !(isLinked && hasTold),
  );
  if (missing.length === 0 && view.areNodesKnown) return undefined;
  const { isVolume, node } = owner;
  const text = `${id} was made on another node than ${node}, which has it, and ${whyMissing(view, missing)}.`;
  const way = `Try again when all are there; at once, if its PersistentVolume names ${node}: kubectl holdfast move --resume CLAIM.`;
  return isVolume ? `${text} ${way}` : text;
}

function whyMissing({ areNodesKnown }: FleetView, missing: readonly NodeSight[]): string {
  return areNodesKnown ? describe(missing) : nodesUnknown;
}
