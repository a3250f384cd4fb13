import type { PoolLog } from '../../pool/log.ts';
import type { Pools } from '../../pool/pools.ts';
import type { ObjectQueue } from '../../volume/flow/object-queue.ts';
import { pause } from '../../volume/flow/pause.ts';
import type { SnapshotId } from '../../volume/id.ts';
import { movesOf, patiently } from '../source.ts';

export interface LeftCopiesOptions {
  readonly pools: Pools;
  readonly objects: ObjectQueue;
  readonly log: PoolLog;
  readonly retryMs: number;
}

/**
 * Parts of snapshots that never arrive: the snapshot was deleted, or its move was given up, while the pool that it went to was not
 * open. They are readable and take space. A snapshot arrives only while one of its copies is fenced, and that is known once all pools
 * are open.
 */
export class LeftCopies {
  readonly #options: LeftCopiesOptions;
  readonly #ending = new AbortController();
  #isWanted = false;
  #removing: Promise<void> | undefined;

  constructor(options: LeftCopiesOptions) {
    this.#options = options;
  }

  /** Removes them as soon as that can be. Never rejects. */
  async remove(): Promise<void> {
    this.#isWanted = true;
    this.#removing ??= this.#run();
    await this.#removing;
  }

  async stop(): Promise<void> {
    this.#ending.abort();
    await this.#removing;
  }

  async #run(): Promise<void> {
    const { log, pools, retryMs } = this.#options;
    const { signal } = this.#ending;
    while (this.#isWanted && !signal.aborted) {
      this.#isWanted = false;
      try {
        if (pools.ready() && pools.firstClosed() === undefined) {
          await this.#removeAll();
          continue;
        }
      } catch (error) {
        if (signal.aborted) break;
        log.warn({ err: error }, 'parts of snapshots that come no more cannot be removed');
      }
      this.#isWanted = true;
      await pause(retryMs, signal);
    }
    this.#removing = undefined;
  }

  async #removeAll(): Promise<void> {
    const { objects, pools } = this.#options;
    const { signal } = this.#ending;
    for (const pool of pools.all()) {
      if (pool.moves === undefined) continue;
      const { snapshots } = movesOf(pool);
      for (const id of await snapshots.arriving()) {
        await patiently({ objects, signal }, [id], async () => {
          if (!(await this.#isComing(id))) await snapshots.discard(id);
        });
      }
    }
  }

  /** True if it may still arrive. */
  async #isComing(id: SnapshotId): Promise<boolean> {
    const { pools } = this.#options;
    if (pools.firstClosed() !== undefined) return true;
    for (const { moves } of pools.all()) {
      if ((await moves?.snapshots.settled(id)) === undefined) continue;
      if ((await moves?.snapshots.stateOf(id))?.mark.fence !== undefined) return true;
    }
    return false;
  }
}
