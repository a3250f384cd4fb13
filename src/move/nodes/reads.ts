import { Unavailable } from '../../volume/errors.ts';
import { withTimeout } from '../../volume/flow/with-timeout.ts';
import { kindOf, type SnapshotId, type VolumeId } from '../../volume/id.ts';

/** A stream of a volume to another node. */
export interface ReadOf {
  readonly moveId: string;
  /** It reads the volume itself, not a snapshot: only as long as the fence stands. */
  readonly isFenced: boolean;
}

interface Running {
  readonly read: ReadOf;
  readonly ending: AbortController;
  readonly ended: Promise<void>;
}

/** A disk has to answer what it was asked for before that. */
const endMs = 10_000;

/** The streams that go on, by volume or snapshot: each ends with its admission. */
export class Reads<Id extends SnapshotId | VolumeId = VolumeId> {
  readonly #running = new Map<Id, Set<Running>>();

  /** @param work closes all that it has opened once its signal is aborted */
  async during(id: Id, read: ReadOf, work: (ended: AbortSignal) => Promise<void>): Promise<void> {
    const ending = new AbortController();
    const ended = Promise.withResolvers<void>();
    const running = { read, ending, ended: ended.promise };
    const all = this.#running.get(id) ?? new Set();
    this.#running.set(id, all.add(running));
    try {
      await work(ending.signal);
    } finally {
      all.delete(running);
      if (all.size === 0) this.#running.delete(id);
      ended.resolve();
    }
  }

  stop(id: Id, isMeant: (read: ReadOf) => boolean = () => true): void {
    for (const { ending } of this.#those(id, isMeant)) ending.abort();
  }

  /** The same, of all volumes or snapshots. */
  stopAll(isMeant: (read: ReadOf) => boolean): void {
    for (const id of this.#running.keys()) this.stop(id, isMeant);
  }

  /** Stops them, and waits until nothing of the volume is open any more. @throws Unavailable if that takes too long */
  async end(id: Id, isMeant: (read: ReadOf) => boolean = () => true): Promise<void> {
    const meant = this.#those(id, isMeant);
    this.stop(id, isMeant);
    if ((await withTimeout(endMs, Promise.all(meant.map(({ ended }) => ended)))) === 'late') {
      throw new Unavailable(`${kindOf(id)} ${id} is still being read for another node; try again.`);
    }
  }

  #those(id: Id, isMeant: (read: ReadOf) => boolean): Running[] {
    return [...(this.#running.get(id) ?? [])].filter(({ read }) => isMeant(read));
  }
}
