import { Unavailable } from '../../volume/errors.ts';
import type { RecordedVolume } from '../kubernetes/persistent-volumes.ts';
import { OwnerInDoubt, SeveralOwners } from '../routing/owner.ts';
import type { Owner } from '../routing/view.ts';
import type { FleetState } from './fleet-state.ts';

interface Recorded {
  readonly state: FleetState;
  /** Returns the PersistentVolumes of a volume. */
  readonly records: (volumeId: string) => Promise<readonly RecordedVolume[]>;
  /** Returns the other node that a volume of this node has moved to, or may have. */
  readonly movedTo: (volumeId: string, from: string) => string | undefined;
}

/**
 * Routes a call. A volume that has moved is on another node than the one that made it: while any node is away, or where that one has it, too,
 * as its disks were put back, the PersistentVolumes say where it is, which only a person or the controller's own programs may change.
 * @param route looks at the state at once, with nothing awaited: it is called again after each question to Kubernetes
 * @throws what `route` throws, Unavailable in the moment in which the volume moves
 */
export async function routeRecorded<T>({ movedTo, records, state }: Recorded, route: () => T): Promise<T> {
  const asked = new Set<string>();
  for (;;) {
    try {
      return route();
    } catch (error) {
      if (!(error instanceof OwnerInDoubt || error instanceof SeveralOwners) || asked.has(error.id)) throw error;
      const { id, owners } = error;
      asked.add(id);
      // The volume of a snapshot is what its node says.
      if (!owners.some(({ isVolume }) => isVolume)) throw error;
      const node = nodeByRecords(owners, await records(id));
      refuseMoving(error, movedTo, node);
      if (node === undefined) throw error;
      state.noteRecorded(id, node);
    }
  }
}

/** The node that all PersistentVolumes name; without any, the one that made the object. */
function nodeByRecords(owners: readonly Owner[], found: readonly RecordedVolume[]): string | undefined {
  const [first] = found;
  if (first === undefined) return owners.find(({ isNative }) => isNative)?.node;
  const isOne = found.every(({ node }) => node === first.node);
  return owners.find(({ node }) => isOne && node === first.node)?.node;
}

/**
 * The node that a volume leaves reports it a moment longer than the move takes.
 * @param recorded the node that its PersistentVolumes name
 * @throws Unavailable
 */
function refuseMoving(
  { id, owners }: OwnerInDoubt | SeveralOwners,
  movedTo: Recorded['movedTo'],
  recorded: string | undefined,
): void {
  const nodes = owners.map(({ node }) => node);
  for (const from of recorded === undefined ? nodes : [recorded]) {
    const to = movedTo(id, from);
    if (to === undefined || to === from || !nodes.includes(to)) continue;
    throw new Unavailable(`${id} has just moved from ${from} to ${to}; try again.`);
  }
}
