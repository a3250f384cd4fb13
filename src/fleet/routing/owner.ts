import { FailedPrecondition, Unavailable } from '../../volume/errors.ts';
import { describe, untold } from './missing.ts';
import type { FleetView, NodeSight, Owner } from './view.ts';

/** A node has an object that another one has made, and reports are missing: its PersistentVolumes may say that it is there. */
export class OwnerInDoubt extends Unavailable {
  readonly id: string;
  readonly owner: Owner;

  constructor(id: string, owner: Owner, missing: readonly NodeSight[]) {
    const { node, volumeId } = owner;
    const text = `${id} was made on another node than ${node}, which has it, and ${describe(missing)}.`;
    const way = `Try again when all are there; at once, if the PersistentVolume of ${volumeId} names ${node}: kubectl holdfast move --resume CLAIM.`;
    super(volumeId === undefined ? text : `${text} ${way}`);
    this.id = id;
    this.owner = owner;
  }
}

/** Several nodes have an object, and each may be the one: a fault, or the moment in which a volume moves. */
export class SeveralOwners extends FailedPrecondition {
  readonly id: string;
  readonly nodes: readonly string[];

  constructor(id: string, nodes: readonly string[]) {
    super(`${id} is on ${nodes.join(' and ')}: one of them must not have it. Look at both; nothing is done.`);
    this.id = id;
    this.nodes = nodes;
  }
}

/**
 * Finds the node that has the object, linked or not; undefined: no node claims it.
 *
 * An id derives from the name of the node that made it, so a claim of that node is true. A node that claims an id of
 * another one is trusted, as volumes and disks are moved, if no other claims the same, and all nodes have reported or the
 * PersistentVolumes name it: so a node that lies draws no calls away from another.
 * @throws SeveralOwners if several have it, OwnerInDoubt if reports are missing and it could belong to another node
 */
export function ownerOf(view: FleetView, id: string): NodeSight | undefined {
  const owners = view.owners(id);
  const native = owners.filter(({ isNative }) => isNative);
  const believed = native.length > 0 ? native : owners;
  if (believed.length > 1) {
    throw new SeveralOwners(
      id,
      believed.map(({ node }) => node),
    );
  }
  const [owner] = believed;
  if (owner === undefined) return undefined;
  const missing = owner.isNative || owner.isRecorded ? [] : untoldFor(view, owner, id);
  if (missing.length > 0) throw new OwnerInDoubt(id, owner, missing);
  return view.node(owner.node);
}

/**
 * The nodes whose silence leaves the owner in doubt. A closed pool holds back what may be in it, and nothing that another
 * node is known to have made.
 */
function untoldFor(view: FleetView, owner: Owner, id: string): NodeSight[] {
  const missing = untold(view);
  if (missing.length === 0) return [];
  const origin = view.originOf(owner, id);
  return missing.filter(
    ({ hasTold, isLinked, name }) => origin === undefined || origin === name || !(isLinked && hasTold),
  );
}
