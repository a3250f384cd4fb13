import type { Pools } from '../../pool/pools.ts';
import type { VolumeId } from '../../volume/id.ts';
import type { SingleFlight } from '../../volume/single-flight.ts';

const firstPauseMs = 1_000;
const longestPauseMs = 60_000;

/**
 * Ephemeral volumes that are unpublished but still in use elsewhere on the node, in another mount namespace say: tried
 * again until they can be removed. Nothing is kept of this list: the next start removes what is mounted nowhere.
 */
export class LateRemovals {
  readonly #pools: Pools;
  readonly #flights: SingleFlight;
  readonly #waiting = new Set<VolumeId>();

  constructor(pools: Pools, flights: SingleFlight) {
    this.#pools = pools;
    this.#flights = flights;
  }

  add(id: VolumeId): void {
    if (this.#waiting.has(id)) return;
    this.#waiting.add(id);
    this.#later(id, firstPauseMs);
  }

  /** A publish makes the volume anew: it is not to be removed any more. */
  drop(id: VolumeId): void {
    this.#waiting.delete(id);
  }

  #later(id: VolumeId, pauseMs: number): void {
    setTimeout(() => void this.#try(id, pauseMs), pauseMs).unref();
  }

  async #try(id: VolumeId, pauseMs: number): Promise<void> {
    try {
      await this.#flights.claim([{ object: id }], 'a removal', async () => {
        if (!this.#waiting.has(id)) return;
        const found = await this.#pools.findEphemeral(id);
        await found?.pool.remove(id);
        this.#waiting.delete(id);
      });
    } catch {
      // Still in use, or its pool cannot be asked now.
      this.#later(id, Math.min(2 * pauseMs, longestPauseMs));
    }
  }
}
