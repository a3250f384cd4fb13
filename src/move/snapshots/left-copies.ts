import type { PoolLog } from '../../pool/log.ts';
import type { PoolSnapshotMoves } from '../../pool/moves.ts';
import type { Pool } from '../../pool/pool.ts';
import type { Pools } from '../../pool/pools.ts';
import { LastReasons } from '../../volume/flow/last-reasons.ts';
import type { ObjectQueue } from '../../volume/flow/object-queue.ts';
import { UntilDone } from '../../volume/flow/until-done.ts';
import type { SnapshotId } from '../../volume/id.ts';
import { movesOf, patiently } from '../source.ts';
import type { DeletedSnapshot, DeletedSnapshots } from './deleted-snapshots.ts';
import { mayBeWhole } from './snapshot-move.ts';
import { hasAllData } from './survivor.ts';

export interface LeftCopiesOptions {
  readonly pools: Pools;
  readonly objects: ObjectQueue;
  readonly log: PoolLog;
  readonly retryMs: number;
  readonly deleted: DeletedSnapshots;
  /** Snapshots come from other nodes: a part of one is not known by a copy here. @throws Unavailable while that is not known */
  readonly isComing: () => boolean;
}

type Use = 'coming' | 'last' | 'none';

/**
 * Parts of snapshots that never arrive: the snapshot was deleted, or its move was given up, while the pool that it went to was not
 * open. They are readable and take space. A snapshot arrives only while one of its copies is fenced, and that is known once all pools
 * are open. One that is whole stays as long as no pool has the snapshot: where it was may be no pool of the node any more, or lost.
 */
export class LeftCopies {
  readonly #options: LeftCopiesOptions;
  readonly #removal: UntilDone;
  readonly #logged = new LastReasons();

  constructor(options: LeftCopiesOptions) {
    this.#options = options;
    this.#removal = new UntilDone(options.retryMs, () => this.#removeAll());
  }

  /** Removes them as soon as that can be. Never rejects. */
  remove(): Promise<void> {
    return this.#removal.start();
  }

  /**
   * Copies of snapshots that were deleted while the pool of the copy was not open, or not in the configuration, as far as pools are open
   * now: before they are taken for ones that wait for the end of a move. One that fails keeps none of the others.
   * @returns the ones that have failed
   */
  async removeDeleted(): Promise<ReadonlySet<SnapshotId>> {
    const failed = new Set<SnapshotId>();
    for (const each of this.#options.deleted.all()) {
      if (!(await this.#try(`deleted/${each.id}`, () => this.#removeAllOf(each)))) failed.add(each.id);
    }
    for (const pool of this.#options.pools.all()) {
      for (const id of (await pool.moves?.snapshots.deleted()) ?? []) {
        if (!(await this.#try(`deleted/${pool.name}/${id}`, () => this.#removeCopy(pool, id)))) failed.add(id);
      }
    }
    return failed;
  }

  #removeCopy(pool: Pool, id: SnapshotId): Promise<void> {
    const { objects } = this.#options;
    const { snapshots } = movesOf(pool);
    return patiently({ objects, signal: this.#removal.signal }, [id], async () => {
      if ((await snapshots.deleted()).includes(id)) await snapshots.removeLeft(id);
    });
  }

  /** A pool is looked at once: a later snapshot with that id may have a copy on its way there then. */
  #removeAllOf(note: DeletedSnapshot): Promise<void> {
    const { deleted, objects, pools } = this.#options;
    const { createdAt, generation, id } = note;
    return patiently({ objects, signal: this.#removal.signal }, [id], async () => {
      if (!deleted.has(note)) return;
      const open = pools.all().filter(({ name }) => note.pools.includes(name));
      for (const { moves } of open) {
        await moves?.snapshots.removeOlder(id, createdAt, generation);
        await moves?.snapshots.discard(id);
      }
      await deleted.removedFrom(
        note,
        open.map(({ name }) => name),
      );
    });
  }

  stop(): Promise<void> {
    return this.#removal.stop();
  }

  /** @returns false if something has failed, and is tried again. Never throws. */
  async #removeAll(): Promise<boolean> {
    let isDone = (await this.removeDeleted()).size === 0;
    if (!this.#options.pools.areAllOpen()) return false;
    for (const pool of this.#options.pools.all()) {
      if (pool.moves === undefined) continue;
      const { snapshots } = movesOf(pool);
      const tried = await this.#try(pool.name, async () => {
        for (const id of await snapshots.arriving()) {
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
      return true;
    } catch (error) {
      if (this.#removal.signal.aborted) return true;
      this.#log(what, String(error), { what, err: error }, 'parts of snapshots that come no more cannot be removed');
      return false;
    }
  }

  async #removeOne(pool: Pool, id: SnapshotId): Promise<void> {
    const { objects } = this.#options;
    const { snapshots } = movesOf(pool);
    await patiently({ objects, signal: this.#removal.signal }, [id], async () => {
      const use = await this.#useOf(pool, id);
      if (use === 'none') await snapshots.discard(id);
      const key = `${pool.name}/${id}`;
      if (use === 'last') {
        const text =
          'a copy of a snapshot is kept of which no pool has all data: it may be the last one (docs/move.md)';
        this.#log(key, use, { pool: pool.name, snapshot_id: id }, text);
      } else this.#logged.forget(key);
    });
  }

  /** 'coming': it may still arrive; 'last': it may be all that is left of the snapshot. */
  async #useOf(pool: Pool, id: SnapshotId): Promise<Use> {
    const { isComing, pools } = this.#options;
    if (pools.firstClosed() !== undefined || isComing()) return 'coming';
    let valid: PoolSnapshotMoves | undefined;
    for (const { moves } of pools.all()) {
      if (moves === undefined || (await moves.snapshots.settled(id)) === undefined) continue;
      const state = await moves.snapshots.stateOf(id);
      if (state.mark.fence !== undefined) return 'coming';
      if (state.why === undefined) valid = moves.snapshots;
    }
    if (!mayBeWhole(await movesOf(pool).snapshots.notedOf(id))) return 'none';
    const survivor = valid && { verified: () => valid.verified(id) };
    return survivor !== undefined && (await hasAllData(survivor)) ? 'none' : 'last';
  }

  #log(key: string, word: string, facts: Readonly<Record<string, unknown>>, text: string): void {
    if (!this.#logged.isNew(key, word)) return;
    this.#options.log.warn(facts, text);
  }
}
