import type { CopyState, PoolMoves } from '../pool/moves.ts';
import type { Pools } from '../pool/pools.ts';
import { withTimeout } from '../volume/flow/with-timeout.ts';
import type { VolumeId } from '../volume/id.ts';
import { isVolume, mayBeLast } from '../volume/move/rule.ts';
import { hasArrived } from './copies.ts';
import type { MoveJob } from './job.ts';
import type { MoverOptions } from './mover.ts';
import { readUnderBy } from './moving.ts';
import { planMs, requirePeers } from './peers.ts';
import { hasAllData } from './snapshots/survivor.ts';
import {
  leaveNothing,
  leftPool,
  MoveEnded,
  MoveForgotten,
  movesOf,
  PoolSource,
  removeSnapshots,
  type SourceSight,
} from './source.ts';
import { QueuedSource } from './turns/queued-source.ts';
import { copiesAtATime, TurnsPerPlace } from './turns/read-turns.ts';

/** The time for which a disk is waited for that may have a rest. */
const lookMs = 10_000;

/**
 * The rests of moves: the parts of volumes that have come where they went, and the snapshots that they were read from. A part may be
 * the last copy of its volume, so its source is asked before it is removed.
 */
export class Rests {
  readonly #options: Pick<MoverOptions, 'log' | 'objects' | 'peers' | 'pools'>;
  readonly #turns = new TurnsPerPlace(copiesAtATime);

  constructor(options: Pick<MoverOptions, 'log' | 'objects' | 'peers' | 'pools'>) {
    this.#options = options;
  }

  sourceOf(job: MoveJob, signal: AbortSignal): QueuedSource {
    const { objects, peers, pools } = this.#options;
    const { id, moveId, node } = job;
    if (node !== undefined) return requirePeers(peers).source({ id, moveId, node }, signal);
    const source = new PoolSource({ pool: leftPool(pools, job), id, moveId, objects, signal });
    return new QueuedSource({ source, moveId, turns: this.#turns.at([job.from, job.to].join(' ')), signal });
  }

  /** False if the pool that the volume goes to is no pool of this node any more. */
  isTargetKnown({ to }: MoveJob): boolean {
    return this.#options.pools.names().includes(to);
  }

  /** False if the pool that the volume leaves is no pool of this node any more: what it has is not known. */
  isSourceKnown({ from, node }: MoveJob): boolean {
    return node !== undefined || this.#options.pools.names().includes(from);
  }

  /** True if the pool that a volume went to is open, and has a part of it still. */
  async #hasPart({ id, to }: MoveJob): Promise<boolean> {
    const { pools } = this.#options;
    if (!pools.isOpen(to) || (await hasArrived(pools.get(to), id))) return false;
    return (await movesOf(pools.get(to)).arriving()).includes(id);
  }

  /** @returns undefined: the pool that it went to is not open, or another disk may have all of it */
  async #isLeft(job: MoveJob): Promise<boolean | undefined> {
    const { pools } = this.#options;
    const { state, to, whole } = job;
    if (state === 'done') return false;
    if (pools.names().includes(to) && !pools.isOpen(to)) return undefined;
    if (await this.#hasPart(job)) return true;
    return whole === undefined ? false : undefined;
  }

  /**
   * Asked before the volume is claimed: a disk that hangs must keep no call for it back.
   * @returns undefined: the pool that it went to is not open, or does not answer, or another disk may have all of it
   */
  async mayBeLeft(job: MoveJob): Promise<boolean | undefined> {
    const isLeft = await withTimeout(lookMs, this.#isLeft(job)).catch(() => undefined);
    return isLeft === 'late' ? undefined : isLeft;
  }

  /** Removes what a move that has ended has left, unless it may be the last copy. Never throws. @returns false if a part may stay */
  async removeIfNeedless(job: MoveJob): Promise<boolean> {
    const { log } = this.#options;
    const { id, state } = job;
    try {
      const isLeft = await this.#isLeft(job);
      if (isLeft !== true) return isLeft === false;
      if (state === 'failed' && !(await this.#isNeedless(job))) return false;
      await this.discard(job);
      return true;
    } catch (error) {
      log.warn({ volume_id: id, err: error }, 'the rest of the move of a volume is left');
      return false;
    }
  }

  /** True if the volume can be used where a failed move has left it, or is no more: the part that was copied is not the last copy. */
  async #isNeedless(job: MoveJob): Promise<boolean> {
    // Another node cannot be asked yet at the start.
    if (job.node !== undefined || !this.isSourceKnown(job)) return false;
    const sight = await this.sourceOf(job, AbortSignal.timeout(planMs)).look();
    if (sight !== undefined) {
      return sight.state.why === undefined && (await hasAllData({ verified: () => this.requireAllData(job) }));
    }
    return (await this.#options.pools.find(job.id)) === undefined && !(await this.mayBeLast(job, undefined));
  }

  /** The part that has come. */
  async discardHere({ id, to }: MoveJob): Promise<void> {
    const { pools } = this.#options;
    if (!pools.isOpen(to)) return;
    const pool = pools.get(to);
    if (!(await hasArrived(pool, id))) await movesOf(pool).discard(id);
  }

  /** The rest of a failed move to another pool. */
  async discard(job: MoveJob): Promise<void> {
    const { pools } = this.#options;
    await this.discardHere(job);
    if (!this.isSourceKnown(job)) return;
    if (job.node === undefined) return removeSnapshots(pools.get(job.from), job);
    try {
      await this.sourceOf(job, AbortSignal.timeout(planMs)).removeSnapshots();
    } catch {
      // Another node removes them alone, later.
    }
  }

  /** The space that a failed move has left where the volume went; undefined: none, or it is not known now. */
  async bytesOf(job: MoveJob): Promise<bigint | undefined> {
    if (job.state !== 'failed' || job.to === '') return undefined;
    const { pools } = this.#options;
    const { to } = job;
    try {
      if (!pools.isOpen(to) || !(await this.#hasPart(job))) return undefined;
      return await movesOf(pools.get(to)).comingBytes(job.id);
    } catch {
      return undefined;
    }
  }

  /** A volume that was deleted meanwhile leaves nothing of its move. */
  async removeOfDeleted(job: MoveJob): Promise<void> {
    const { log, pools } = this.#options;
    // The part that has come may be the last copy.
    if (!this.isSourceKnown(job)) return;
    try {
      const seen = await this.lookAtSource(job);
      if (isThere(seen) || (job.node === undefined && (await pools.find(job.id)) !== undefined)) return;
      if (await this.mayBeLast(job, seen)) {
        const facts = { volume_id: job.id, pool: job.to };
        log.warn(facts, 'the copy of a volume is kept: it has all bytes, and its source none, or earlier ones');
        return;
      }
      await this.discard(job);
    } catch (error) {
      log.warn({ volume_id: job.id, err: error }, 'the rest of the move of a volume is left');
    }
  }

  /**
   * Asked before anything that has come is removed: true if that may be the last copy. Only an operator's second word removes it then.
   * @param seen what its source says; undefined: it has no copy, or is lost
   */
  async mayBeLast(job: MoveJob, seen: SourceAnswer | CopyState | undefined): Promise<boolean> {
    if (seen instanceof MoveEnded && seen.left?.isDeleted === true) return false;
    return mayBeLast(await this.readUnder(job), stateIn(seen));
  }

  /**
   * Before the part that has come goes for the copy at its source, which is the volume, or becomes it. A mere part is not needed.
   * @param moveId of the move that its source has let in
   * @throws DataLoss if that copy lacks data
   */
  async requireAllData(job: MoveJob, moveId = job.moveId): Promise<void> {
    if ((await this.readUnder(job)) === undefined) return;
    await this.sourceOf({ ...job, moveId }, AbortSignal.timeout(lookMs)).verified();
  }

  /**
   * The fence under which all that has come was read; undefined: not all of it has. The job's note says it of a pool that is not open, or
   * has another disk.
   */
  async readUnder({ id, to, whole }: MoveJob): Promise<string | undefined> {
    const { pools } = this.#options;
    const note = pools.isOpen(to) ? await movesOf(pools.get(to)).comingNote(id) : undefined;
    return note === undefined ? whole?.fenceId : readUnderBy(note);
  }

  /**
   * A move that was given up while the pool which the volume leaves was not in the configuration leaves nothing there. Never throws.
   * @returns false: it may have left something there
   */
  async removeAtSource({ from, id, moveId, node }: MoveJob): Promise<boolean> {
    const { log, objects, pools } = this.#options;
    if (node !== undefined) return true;
    if (!pools.isOpen(from)) return false;
    try {
      await objects.claim([{ object: id }], 'the end of a move', () => leaveNothing(pools.get(from), { id, moveId }));
      return true;
    } catch (error) {
      log.warn({ volume_id: id, pool: from, err: error }, 'the rest of the move of a volume is left');
      return false;
    }
  }

  /** False while the source of a move hangs. Never rejects. */
  async doesAnswer(job: MoveJob): Promise<boolean> {
    return (await withTimeout(lookMs, Promise.allSettled([this.lookAtSource(job)]))) !== 'late';
  }

  async lookAtSource(job: MoveJob, signal = AbortSignal.timeout(planMs)): Promise<SourceAnswer> {
    try {
      return (await this.sourceOf(job, signal).look()) ?? 'unknown';
    } catch (error) {
      if (error instanceof MoveForgotten) return 'unknown';
      if (error instanceof MoveEnded) return error;
      throw error;
    }
  }
}

/** The answer of a source: its end of the move, or 'unknown' if it knows nothing of the volume or the move. */
export type SourceAnswer = SourceSight | MoveEnded | 'unknown';

export function isThere(seen: SourceAnswer): seen is SourceSight {
  return seen !== 'unknown' && !(seen instanceof MoveEnded);
}

/** True if the source of a move says that it has the volume. */
export function isSeen(seen: SourceAnswer): boolean {
  const state = stateIn(seen);
  return state !== undefined && isVolume(state);
}

/** The copy that the source of a move has; undefined: it has none, or has not said it. */
export function stateIn(seen: SourceAnswer | CopyState | undefined): CopyState | undefined {
  if (seen === undefined || seen === 'unknown') return undefined;
  if (seen instanceof MoveEnded) return seen.left?.state;
  return 'state' in seen ? seen.state : seen;
}

/** The fence under which all of a copy on its way was read; undefined: not all of it has come. */
export async function readUnderIn(moves: PoolMoves, id: VolumeId): Promise<string | undefined> {
  return readUnderBy(await moves.comingNote(id));
}

/** The open pool to which all of a copy has come that is not the volume, also if nothing is known of its move; undefined: there is none. */
export async function poolWithWhole(pools: Pools, id: VolumeId): Promise<string | undefined> {
  for (const { moves, name } of pools.all()) {
    if (moves !== undefined && (await readUnderIn(moves, id)) !== undefined) return name;
  }
  return undefined;
}
