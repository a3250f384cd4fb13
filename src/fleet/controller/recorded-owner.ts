import { Unavailable } from '../../volume/errors.ts';
import type { RecordedVolume } from '../kubernetes/persistent-volumes.ts';
import { OwnerInDoubt, SeveralOwners } from '../routing/owner.ts';
import type { FleetState } from './fleet-state.ts';

interface Recorded {
  readonly state: FleetState;
  /** Returns the PersistentVolumes of a volume. */
  readonly records: (volumeId: string) => Promise<readonly RecordedVolume[]>;
  /** Returns the other node that a volume of this node has moved to, or may have. */
  readonly movedTo: (volumeId: string, from: string) => string | undefined;
}

/**
 * Routes a call. A volume that has moved is on another node than the one that made it: while any node is away, its PersistentVolumes
 * say that it is there, which only a person or the controller's own programs may change.
 * @param route looks at the state at once, with nothing awaited: it is called again after each question to Kubernetes
 * @throws what `route` throws
 */
export async function routeRecorded<T>({ movedTo, records, state }: Recorded, route: () => T): Promise<T> {
  const asked = new Set<string>();
  for (;;) {
    try {
      return route();
    } catch (error) {
      if (error instanceof SeveralOwners) throw movingNow(error, movedTo);
      if (!(error instanceof OwnerInDoubt) || asked.has(error.id)) throw error;
      const { id, owner } = error;
      asked.add(id);
      const found = owner.volumeId === undefined ? [] : await records(owner.volumeId);
      if (found.length === 0 || found.some(({ node }) => node !== owner.node)) throw error;
      state.noteRecorded(id, owner.node);
    }
  }
}

/** The node that a volume leaves reports it a moment longer than the move takes. The caller tries again. */
function movingNow(error: SeveralOwners, movedTo: Recorded['movedTo']): Error {
  const { id, nodes } = error;
  for (const from of nodes) {
    const to = movedTo(id, from);
    if (to !== undefined && nodes.length === 2 && nodes.includes(to)) {
      return new Unavailable(`${id} has just moved from ${from} to ${to}; try again.`);
    }
  }
  return error;
}
