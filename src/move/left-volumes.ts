import type { PoolLog } from '../pool/log.ts';
import type { Pool } from '../pool/pool.ts';
import type { Pools } from '../pool/pools.ts';
import { LastReasons } from '../volume/flow/last-reasons.ts';
import type { ObjectQueue } from '../volume/flow/object-queue.ts';
import { UntilDone } from '../volume/flow/until-done.ts';
import type { VolumeId } from '../volume/id.ts';
import type { VolumeRecord } from '../volume/record.ts';
import { hasArrived } from './copies.ts';
import { type MoveJob, turnOf } from './job.ts';
import { readUnderIn } from './rests.ts';
import { hasAllData } from './snapshots/survivor.ts';
import { movesOf, patiently } from './source.ts';

export interface LeftVolumesOptions {
  readonly pools: Pools;
  readonly objects: ObjectQueue;
  readonly log: PoolLog;
  readonly retryMs: number;
  /** The last move of the volume into a pool of this node. */
  readonly jobOf: (id: VolumeId) => { readonly job: MoveJob; readonly isRunning: boolean } | undefined;
}

/**
 * Parts of volumes that never arrive: the move was cancelled, or the volume deleted, while the pool that it went to was not open.
 * They are readable and take space, and a disk takes no other volume. They go once their pool is open. Those of a move that has
 * failed stay: the same order resumes it.
 */
export class LeftVolumes {
  readonly #options: LeftVolumesOptions;
  readonly #removal: UntilDone;
  readonly #logged = new LastReasons();

  constructor(options: LeftVolumesOptions) {
    this.#options = options;
    this.#removal = new UntilDone(options.retryMs, () => this.#removeAll());
  }

  /** Removes them as soon as that can be. Never rejects. */
  remove(): Promise<void> {
    return this.#removal.start();
  }

  stop(): Promise<void> {
    return this.#removal.stop();
  }

  /** @returns false if a pool is not open, or something has failed. Never throws. */
  async #removeAll(): Promise<boolean> {
    const { pools } = this.#options;
    // Asked before: a pool that opens meanwhile is not looked at.
    let isDone = this.#options.pools.areAllOpen();
    for (const pool of pools.all()) {
      const { moves } = pool;
      if (moves === undefined) continue;
      const tried = await this.#try(pool.name, async () => {
        for (const id of await moves.arriving()) {
          if (!(await this.#try(`${pool.name}/${id}`, () => this.#removeOne(pool, id)))) isDone = false;
        }
      });
      if (!tried) isDone = false;
    }
    return isDone;
  }

  /** One that fails keeps none of the others. @param what for the log @returns false if it has failed */
  async #try(what: string, work: () => Promise<void>): Promise<boolean> {
    try {
      await work();
      this.#logged.forget(what);
      return true;
    } catch (error) {
      if (this.#removal.signal.aborted) return true;
      if (this.#logged.isNew(what, String(error))) {
        this.#options.log.warn({ what, err: error }, 'parts of volumes that come no more cannot be removed');
      }
      return false;
    }
  }

  async #removeOne(pool: Pool, id: VolumeId): Promise<void> {
    const { objects } = this.#options;
    // No move of it begins meanwhile.
    await patiently({ objects, signal: this.#removal.signal }, [turnOf(id), id], async () => {
      if (await this.#isNeedless(pool, id)) await movesOf(pool).discard(id);
    });
  }

  async #isNeedless(pool: Pool, id: VolumeId): Promise<boolean> {
    const { jobOf, pools } = this.#options;
    const { isRunning = false, job } = jobOf(id) ?? {};
    if (isRunning || (await hasArrived(pool, id))) return false;
    const last = job?.to === pool.name ? job : undefined;
    if (last?.state === 'cancelled') return true;
    const isWhole = (await readUnderIn(movesOf(pool), id)) !== undefined;
    // The volume has come, and the disk is as it was before that: no order resumes that part.
    if (!isWhole && last?.state === 'done') return true;
    for (const other of pools.all()) {
      const record = await other.find(id);
      if (record === undefined) continue;
      // A copy that is fenced, or was handed over, may be on its way to this very part.
      if ((await other.moves?.stateOf(id))?.why !== undefined) return false;
      if (last?.state === 'failed' && !isLaterThan(record, last)) return false;
      return !isWhole || hasAllData({ verified: async () => other.moves?.verified(id) });
    }
    if (last?.state !== 'failed' || last.node !== undefined || !pools.names().includes(last.from)) return false;
    return pools.areAllOpen() && !isWhole;
  }
}

/** True if it is another volume under the name of the one that has moved. */
function isLaterThan({ createdAt }: VolumeRecord, { endedAt }: MoveJob): boolean {
  return endedAt !== undefined && Date.parse(createdAt) > Date.parse(endedAt);
}
