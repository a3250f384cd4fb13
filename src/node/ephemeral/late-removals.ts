import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import type { Pool } from '../../pool/pool.ts';
import type { Pools } from '../../pool/pools.ts';
import type { ObjectQueue } from '../../volume/flow/object-queue.ts';
import type { VolumeId } from '../../volume/id.ts';
import { isSeenHere } from './seen-here.ts';

const firstPauseMs = 1_000;
const longestPauseMs = 60_000;

/**
 * Ephemeral volumes that are unpublished but still in use elsewhere on the node, e.g. in another mount namespace: tried
 * again until they can be removed. This list is not stored: the next start removes volumes that are mounted nowhere, and finds
 * the others again. No other call would remove them, as their unpublish has been answered.
 */
export class LateRemovals {
  readonly #pools: Pools;
  readonly #objects: ObjectQueue;
  readonly #queue: DiskQueue;
  readonly #waiting = new Set<VolumeId>();

  constructor(pools: Pools, objects: ObjectQueue, queue: DiskQueue) {
    this.#pools = pools;
    this.#objects = objects;
    this.#queue = queue;
  }

  add(id: VolumeId): void {
    if (this.#waiting.has(id)) return;
    this.#waiting.add(id);
    this.#later(id, firstPauseMs);
  }

  /** A publish makes the volume again: it must not be removed any more. */
  drop(id: VolumeId): void {
    this.#waiting.delete(id);
  }

  /** Finds what a driver before this one has left, once the pools are open. */
  resume(): void {
    const look = () => (this.#pools.ready() ? void this.#find() : this.resume());
    setTimeout(look, firstPauseMs).unref();
  }

  async #find(): Promise<void> {
    for (const pool of this.#pools.all()) {
      // A pool that cannot tell now has a start before it.
      const ephemeral = await pool.listEphemeral().catch(() => []);
      for (const { id } of ephemeral) await this.#addUnlessSeen(pool, id);
    }
  }

  async #addUnlessSeen(pool: Pool, id: VolumeId): Promise<void> {
    try {
      await this.#objects.claim([{ object: id }], 'a look at leftovers', async () => {
        if (!(await isSeenHere(this.#queue, pool, id))) this.add(id);
      });
    } catch {
      // A call for it is in progress, and will do the right thing.
    }
  }

  #later(id: VolumeId, pauseMs: number): void {
    setTimeout(() => void this.#try(id, pauseMs), pauseMs).unref();
  }

  async #try(id: VolumeId, pauseMs: number): Promise<void> {
    try {
      await this.#objects.claim([{ object: id }], 'a removal', async () => {
        if (!this.#waiting.has(id)) return;
        const found = await this.#pools.findEphemeral(id);
        if (found !== undefined) await found.pool.remove(id);
        this.#waiting.delete(id);
      });
    } catch {
      // Still in use, or its pool cannot be asked now.
      this.#later(id, Math.min(2 * pauseMs, longestPauseMs));
    }
  }
}
