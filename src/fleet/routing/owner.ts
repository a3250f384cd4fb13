import { FailedPrecondition, Unavailable } from '../../volume/errors.ts';
import { describe, untold } from './missing.ts';
import type { FleetView, NodeSight, Owner } from './view.ts';

/** A node has an object that another one has made, and reports are missing: the PersistentVolumes of a volume may say that it is there. */
export class OwnerInDoubt extends Unavailable {
  readonly id: string;
  readonly owners: readonly Owner[];

  constructor(id: string, owner: Owner, missing: readonly NodeSight[]) {
    const { isVolume, node } = owner;
    const text = `${id} was made on another node than ${node}, which has it, and ${describe(missing)}.`;
    const way = `Try again when all are there; at once, if its PersistentVolume names ${node}: kubectl holdfast move --resume CLAIM.`;
    super(isVolume ? `${text} ${way}` : text);
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
 * An id derives from the name of the node that made it, so a claim of that node is true, if no other one claims the same. A node that
 * claims an id of another one is trusted, as volumes and disks are moved, if all nodes have reported or the PersistentVolumes name it:
 * so a node that lies draws no calls away from another. Of several nodes with a volume the one counts that the PersistentVolumes name.
 * @throws SeveralOwners if several have it, OwnerInDoubt if reports are missing and it could belong to another node
 */
export function ownerOf(view: FleetView, id: string): NodeSight | undefined {
  const owners = view.owners(id);
  const recorded = owners.filter(({ isRecorded }) => isRecorded);
  const native = owners.filter(({ isNative }) => isNative);
  // A snapshot has the same bytes on each of them.
  const isVolume = owners.some((owner) => owner.isVolume);
  const believed = recorded.length > 0 ? recorded : native.length > 0 && !isVolume ? native : owners;
  if (believed.length > 1) throw new SeveralOwners(id, believed);
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
