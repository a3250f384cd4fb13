import type { CopyState, LaterCopy, PoolMoves } from '../pool/moves.ts';
import type { Pool } from '../pool/pool.ts';
import type { Pools } from '../pool/pools.ts';
import { FailedPrecondition, Unavailable } from '../volume/errors.ts';
import { withTimeout } from '../volume/flow/with-timeout.ts';
import { kindOf, type SnapshotId, type VolumeId } from '../volume/id.ts';
import { type CopyMark, hasCome, isVolume, type LostHere, type Noted, unmarked } from '../volume/move/rule.ts';
import { type MoveJob, turnOf } from './job.ts';
import type { MoverOptions } from './mover.ts';
import type { CopySight, TrashedCopy } from './peers.ts';
import { movesOf, removeSnapshots } from './source.ts';
import { isLaterTrashed, latestTrashed } from './trashed-copy.ts';

interface CopiesOptions extends Pick<MoverOptions, 'isStaged' | 'objects' | 'peers' | 'pools'> {
  /** The last move of a volume to this node, or between its pools. */
  readonly lastJobOf: (id: VolumeId) => MoveJob | undefined;
  /** Ends the move of a volume that has gone on at another node. */
  readonly endMove: (id: VolumeId, by: LaterCopy) => Promise<void>;
  /** @throws Unavailable while the driver starts */
  readonly requireReady: () => void;
}

/** The time for which a disk is waited for that may have a copy. */
const lookMs = 10_000;

/** The copies of volumes on this node, as the controller asks for them, and has them given up, where moves have not ended as usual. */
export class Copies {
  readonly #options: CopiesOptions;

  constructor(options: CopiesOptions) {
    this.#options = options;
  }

  /** The copy of this node. @throws Unavailable if a pool may have one that is not open, Aborted while it is taken back */
  look(id: VolumeId): Promise<CopySight> {
    const { objects, pools } = this.#options;
    return objects.claim([{ object: id }], 'a look at its copy', async () => {
      const copies = await copiesIn(pools, id);
      // A fence that was not handed over ends: that copy is the volume as long as it stands, too.
      const volume = copies.find(({ state }) => isVolume(state));
      const copy = volume ?? latestOf(copies);
      if (copy === undefined) {
        requireOpen(pools, id);
        const { at, generation = 0 } = (await this.noteOf(id)) ?? {};
        // A node that gives a copy up notes two generations above that of the source, which may take it back.
        const trashed = await this.#trashedCopyOf(id);
        return { generation: Math.max(0, generation - 2), isVolume: false, isHere: false, elsewhere: at, trashed };
      }
      const { generation } = copy.state.mark;
      const createdAt = (await copy.pool.find(id))?.createdAt;
      const elsewhere = volume === undefined ? await movesOf(copy.pool).whereElse(id) : undefined;
      const seen = { generation, createdAt, elsewhere, isVolume: volume !== undefined, isHere: true };
      const trashed = volume === undefined ? await this.#trashedCopyOf(id) : undefined;
      // A disk was put back with an earlier one.
      return { ...seen, ...(isLaterTrashed(trashed, seen) && { trashed }) };
    });
  }

  async #trashedCopyOf(id: VolumeId): Promise<TrashedCopy | undefined> {
    const found = await latestTrashed(this.#options.pools, id);
    if (found === undefined) return undefined;
    const { createdAt, generation, pool } = found;
    return { createdAt, generation, elsewhere: await pool.moves?.whereElse(id) };
  }

  /** `Pools.noteOf` */
  noteOf(id: SnapshotId | VolumeId): Promise<Noted | undefined> {
    return this.#options.pools.noteOf(id);
  }

  /** The volume was deleted. One that was removed from a pool has no note any more. */
  async noteDeleted(id: VolumeId): Promise<void> {
    const { pools } = this.#options;
    const { anyMoves: moves } = pools;
    if (moves !== undefined && (await poolsWith(pools, id)).length === 0) await moves.noteDeleted(id);
  }

  /**
   * Gives up a copy that another node has handed over to this one, which was installed again and knows nothing of that, or has lost
   * the pool. All pools are open, and none has the volume or a part of it.
   * @param generation of the copy that was handed over
   * @param lostPool the pool that the volume came to, whose disk is lost
   * @returns the word for that node, once it is durable that nothing is committed here, and no copy of that disk used
   * @throws FailedPrecondition, Unavailable: why not
   */
  disclaim(id: VolumeId, generation: number, source: string, lostPool?: string): Promise<number> {
    const { objects, pools } = this.#options;
    return objects.run(turnOf(id), 'the end of a move', `${generation} of ${source} ${lostPool}`, async () => {
      this.#options.requireReady();
      const job = this.#options.lastJobOf(id);
      const isDone = lostPool !== undefined && job?.state === 'done';
      const noted = await this.noteOf(id);
      // A move from before that copy says nothing of where it was: the volume may have been restored in another pool since.
      const isLater = noted === undefined || hasCome({ generation }, noted);
      if (isDone && isLater && job.to !== lostPool) {
        throw new FailedPrecondition(`volume ${id} came to pool ${job.to} of this node, and not to pool ${lostPool}.`);
      }
      if (job !== undefined && job.state !== 'cancelled' && !isDone) {
        throw new FailedPrecondition(
          `this node knows of the move of volume ${id}, which is ${job.state}: kubectl holdfast move cancel ${id}, with this node as --node.`,
        );
      }
      return objects.claim([{ object: id }], 'the end of a move', async () => {
        const nothing = await withTimeout(lookMs, requireNothing(pools, id, generation));
        if (nothing === 'late')
          throw new Unavailable(`a disk of this node does not answer, and may have volume ${id}.`);
        return this.giveUp(id, { generation }, { source, lost: lostPool === undefined ? 'node' : 'pool' });
      });
    });
  }

  /**
   * Notes durably that nothing of a hand-over is committed on this node, and that no copy of it is used. No open pool has one, and a
   * pod must not use one of a pool that is not there any more.
   * @param given the mark of the copy that was handed over
   * @param to the pool that it was handed over to; undefined: that is no pool of this node any more
   * @returns the word for the source
   * @throws FailedPrecondition
   */
  async giveUp(
    id: VolumeId,
    given: Pick<CopyMark, 'generation'>,
    {
      lost,
      source,
      to = anyMoves(this.#options.pools),
    }: { source: string; lost?: LostHere | undefined; to?: PoolMoves | undefined },
  ): Promise<number> {
    await this.requireNotStaged(id);
    return to.disclaim(id, given, source, lost);
  }

  /**
   * Before another copy may become the volume: a pod of this node may use it from a pool that is not open.
   * @throws FailedPrecondition
   */
  async requireNotStaged(id: VolumeId): Promise<void> {
    if ((await this.#options.isStaged?.(id)) !== true) return;
    throw new FailedPrecondition(
      `volume ${id} is still staged on this node, from a pool that is not open any more: end its pods here first; if that does not unmount it, restart the node.`,
    );
  }

  /**
   * This node was lost, and is there again. The volume was taken back by another one: an earlier copy here goes to the trash.
   * @returns false if there is none
   * @throws FailedPrecondition while it is in use, Unavailable if a pool may have a copy that is not open
   */
  outdate(id: VolumeId, by: LaterCopy): Promise<boolean> {
    const { objects, peers, pools } = this.#options;
    return objects.run(turnOf(id), 'the end of a move', JSON.stringify(by), async () => {
      this.#options.requireReady();
      const copies = await copiesIn(pools, id);
      // Before the copy goes: the controller asks the node that says that the volume has come to it.
      if (copies.some(({ state }) => state.mark.generation < by.generation)) await this.#options.endMove(id, by);
      const isOutdated = await objects.claim([{ object: id }], 'the end of a move', async () => {
        let is = false;
        for (const { pool } of copies) if (await movesOf(pool).outdate(id, by)) is = true;
        return is;
      });
      if (!isOutdated) {
        // The volume has come here since: an earlier copy in a pool that is not open is one by the note of this node.
        const isLater = copies.some(({ state }) => isVolume(state) && state.mark.generation > by.generation);
        if (!isLater) requireOpen(pools, id);
        return false;
      }
      // The other node of its move has it, and may never tell this one of that.
      await peers?.arrived(id, by.node);
      for (const { pool, state } of copies) {
        if (state.mark.fence !== undefined) await removeSnapshots(pool, { id, moveId: state.mark.fence.moveId });
      }
      return true;
    });
  }

  /**
   * The node that the volume was handed over to has it, and the move has not reported that: its copy here goes to the trash.
   * @throws FailedPrecondition if a copy here was not handed over to that node, or later
   */
  settle(id: VolumeId, generation: number, node: string): Promise<void> {
    const { objects, peers, pools } = this.#options;
    return objects.claim([{ object: id }], 'the end of a move', async () => {
      for (const { pool, state } of await copiesIn(pools, id)) {
        const { fence } = state.mark;
        const move = { id, moveId: fence?.moveId ?? '' };
        const isGiven = state.why === 'given' && fence?.to === node;
        if (!isGiven || !(await movesOf(pool).settle(id, { ...move, generation }))) {
          throw new FailedPrecondition(`volume ${id} of pool ${pool.name} was not handed over to node ${node}.`);
        }
        await removeSnapshots(pool, move);
      }
      await peers?.arrived(id, node);
    });
  }
}

export interface CopyIn {
  readonly pool: Pool;
  readonly state: CopyState;
}

/** The copies of a volume in the open pools of a node. */
export async function copiesIn(pools: Pools, id: VolumeId): Promise<CopyIn[]> {
  return statesIn(await poolsWith(pools, id), id);
}

/** The one of the latest generation: the others are on disks that were put back. */
export function latestOf(copies: readonly CopyIn[]): CopyIn | undefined {
  const [latest] = copies.toSorted((one, other) => other.state.mark.generation - one.state.mark.generation);
  return latest;
}

/** True if that pool has the volume: its disk may be as it was before a move, and have an earlier copy. */
export async function hasArrived(pool: Pool, id: VolumeId): Promise<boolean> {
  return (await pool.find(id)) !== undefined && isVolume(await movesOf(pool).stateOf(id));
}

/** True if an open pool has the volume, not an earlier copy of it alone. One in a pool whose volumes do not move is no copy. */
export async function hasVolume(pools: Pools, id: VolumeId): Promise<boolean> {
  if ((await pools.find(id)) === undefined) return false;
  const copies = await copiesIn(pools, id);
  return copies.length === 0 || copies.some(({ state }) => isVolume(state));
}

/** The copies in these pools, each of which has one. */
export function statesIn(having: readonly Pool[], id: VolumeId): Promise<CopyIn[]> {
  return Promise.all(having.map(async (pool) => ({ pool, state: await movesOf(pool).stateOf(id) })));
}

/** The pools that move volumes and have a copy of this one. */
export async function poolsWith(pools: Pools, id: VolumeId): Promise<Pool[]> {
  const moving = pools.all().filter(({ moves }) => moves !== undefined);
  const found = await Promise.all(moving.map((pool) => pool.find(id)));
  return moving.filter((_pool, at) => found[at] !== undefined);
}

/** @throws Unavailable if a pool may have the volume, or snapshot, that is not open, or not found yet */
export function requireOpen(pools: Pools, id: SnapshotId | VolumeId): void {
  if (pools.areAllOpen()) return;
  throw new Unavailable(
    `${kindOf(id)} ${id} may be in pool ${pools.firstClosed() ?? 'that is still being looked for'}, which is not open: try again when it is, or without that pool in the configuration, if it is lost.`,
  );
}

/**
 * Checks that this node has nothing of a volume, but for an earlier copy in the trash.
 * @param generation of the other node's copy
 * @throws Unavailable if a pool is not open, FailedPrecondition if one has the volume, a part of it on its way, or a deleted one
 */
async function requireNothing(pools: Pools, id: VolumeId, generation: number): Promise<void> {
  requireOpen(pools, id);
  for (const pool of pools.all()) {
    const isHere =
      (await pool.find(id)) !== undefined ||
      (await pool.moves?.arriving())?.includes(id) === true ||
      ((await pool.trash()).some(({ record }) => record.id === id) &&
        ((await pool.moves?.trashedMark(id)) ?? unmarked).generation >= generation);
    if (isHere) {
      throw new FailedPrecondition(
        `pool ${pool.name} of this node has volume ${id}, or a part of it, or a copy in its trash that is no earlier one. kubectl holdfast move cancel ${id}, with this node as --node, says more if it is a part.`,
      );
    }
  }
}

/** All pools of the node share its notes. @throws Unavailable */
export function anyMoves(pools: Pools): PoolMoves {
  const { anyMoves: moves } = pools;
  if (moves !== undefined) return moves;
  throw new Unavailable('no pool of this node is open whose volumes can move: try again when one is.');
}
