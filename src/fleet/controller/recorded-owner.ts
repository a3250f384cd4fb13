import type { RecordedVolume } from '../kubernetes/persistent-volumes.ts';
import { OwnerInDoubt } from '../routing/owner.ts';
import type { FleetState } from './fleet-state.ts';

interface Recorded {
  readonly state: FleetState;
  /** Returns the PersistentVolumes of a volume. */
  readonly records: (volumeId: string) => Promise<readonly RecordedVolume[]>;
}

/**
 * Routes a call. A volume that has moved is on another node than the one that made it: while any node is away, its PersistentVolumes
 * say that it is there, which only a person or the controller's own programs may change.
 * @param route looks at the state at once, with nothing awaited: it is called again after each question to Kubernetes
 * @throws what `route` throws
 */
export async function routeRecorded<T>({ records, state }: Recorded, route: () => T): Promise<T> {
  const asked = new Set<string>();
  for (;;) {
    try {
      return route();
    } catch (error) {
      if (!(error instanceof OwnerInDoubt) || asked.has(error.id)) throw error;
      const { id, owner } = error;
      asked.add(id);
      const found = owner.volumeId === undefined ? [] : await records(owner.volumeId);
      if (found.length === 0 || found.some(({ node }) => node !== owner.node)) throw error;
      state.noteRecorded(id, owner.node);
    }
  }
}
