import type { CopyState, PoolMoves } from '../pool/moves.ts';
import type { Pool } from '../pool/pool.ts';
import { DataLoss, FailedPrecondition, NotFound, Unavailable } from '../volume/errors.ts';
import type { VolumeId } from '../volume/id.ts';
import {
  type CopyMark,
  hasCome,
  isEarlier,
  isVolume,
  mayBeGivenUp,
  mayHaveCommitted,
  type Noted,
} from '../volume/move/rule.ts';
import {
  type Copies,
  type CopyIn,
  copiesIn,
  hasArrived,
  hasVolume,
  latestOf,
  poolsWith,
  requireOpen,
} from './copies.ts';
import { goneOn } from './finish.ts';
import { type Deadline, deadlineWithin, endingBy, type LostOrder, requireInTime } from './in-time.ts';
import { arrivalOf, type MoveJob } from './job.ts';
import type { MoverOptions } from './mover.ts';
import { planMs } from './peers.ts';
import { isSeen, isThere, type Rests, readUnderIn, type SourceAnswer, stateIn } from './rests.ts';
import { MoveEnded, movesOf, PoolAway, removeSnapshots } from './source.ts';
import { isLaterTrashed, latestTrashed } from './trashed-copy.ts';

/** The order to give a move up. */
export interface Cancelling {
  readonly lost: LostOrder | undefined;
  readonly isEvenSo: boolean;
  /** After that nothing is taken back. */
  readonly deadline: Deadline;
  /** The facts that are known, and the answer that it waits for. */
  waitsFor: string;
  isUncommitted?: true;
  isUnseen?: true;
}

/** The order to make a copy the volume again that a move has left, or to end its fence. */
interface Freeing extends Pick<Cancelling, 'deadline' | 'isEvenSo' | 'lost'> {
  /** Nothing is changed: only what can refuse it is asked. */
  readonly isTrial?: boolean;
}

interface UndoOptions extends Pick<MoverOptions, 'objects' | 'peers' | 'pools'> {
  readonly copies: Copies;
  readonly rests: Rests;
  /** The move of a volume that has ended. */
  readonly endedJob: (id: VolumeId) => MoveJob | undefined;
}

/** Gives moves up: the volume is where it was, and nothing of its copy is left. */
export class Undo {
  readonly #options: UndoOptions;

  constructor(options: UndoOptions) {
    this.#options = options;
  }

  /**
   * Before anything of a volume that has come is removed without an operator's second word.
   * @param seen the copy at the source of that move, as it is now, or what that says; undefined: it has none, or is not asked
   * @param options.moveId of the order in the name of which the source is asked; undefined: of that move
   * @throws FailedPrecondition: it may be the last copy
   */
  async requireNotLast(
    job: MoveJob,
    seen: SourceAnswer | CopyState | undefined,
    { isNodeLost = false, moveId = job.moveId }: { readonly isNodeLost?: boolean; readonly moveId?: string } = {},
  ): Promise<void> {
    if (!(await this.#options.rests.mayBeLast(job, seen))) return this.#requireAllData(job, seen, moveId);
    const noted = job.node === undefined ? await this.#options.copies.noteOf(job.id) : undefined;
    if (noted?.at !== undefined) throw goneOn(job, { here: noted.node, elsewhere: noted.at });
    if (job.node === undefined) throw seen === undefined ? lastWithin(job) : laterCopy(job);
    throw await this.#lastCopy(job, job.node, { isNodeLost, state: stateIn(seen) });
  }

  /** @throws FailedPrecondition if the copy at the source is damaged, and all of it has come here */
  async #requireAllData(job: MoveJob, seen: SourceAnswer | CopyState | undefined, moveId: string): Promise<void> {
    // A source that has ended the move names no copy that is damaged.
    if (seen === undefined || seen === 'unknown' || seen instanceof MoveEnded) return;
    try {
      await this.#options.rests.requireAllData(job, moveId);
    } catch (error) {
      throw error instanceof DataLoss ? damaged(job, error, (await this.#options.copies.noteOf(job.id))?.node) : error;
    }
  }

  /** A second word removes the copy that has come: its source has lost the volume, or has an earlier copy. */
  async #lastCopy(
    { from, id, to }: MoveJob,
    node: string,
    { isNodeLost = false, state }: { readonly isNodeLost?: boolean; readonly state?: CopyState | undefined } = {},
  ): Promise<FailedPrecondition> {
    const here = (await this.#options.copies.noteOf(id))?.node ?? 'THIS';
    if (state !== undefined && !isNodeLost) {
      return new FailedPrecondition(
        `all of volume ${id} has come to pool ${to}, and node ${node} has an earlier copy of it, as its disk was put back, or one that was given up by an order which said that this disk is lost, and which was cut short. The one in pool ${to} may be the last copy, and stays. If a disk has a later one, put that back. To have the copy in pool ${to}: take pool ${from} of node ${node} out of the configuration, restart that driver, then kubectl holdfast move finish ${id} --node ${here} --pool-is-lost ${from}. To have the copy on node ${node}: kubectl holdfast move cancel ${id} --node ${here} --even-so, which removes the one in pool ${to}, then kubectl holdfast move cancel ${id} --node ${node} --even-so.`,
      );
    }
    const cancel = `kubectl holdfast move cancel ${id} --node ${here}${isNodeLost ? ` --node-is-lost ${node}` : ''} --even-so`;
    return new FailedPrecondition(
      `all of volume ${id} has come to pool ${to}, and node ${node} is lost, knows nothing of it, has a damaged copy of it, or has pool ${from} no more: this may be the last copy, and stays. It becomes the volume once node ${node} is forgotten (kubectl holdfast forget-node ${node}), by: kubectl holdfast move finish ${id} --node ${here} --node-is-lost ${node}; or, if that node is there and the disk of its pool is lost, by --pool-is-lost ${from}. To remove it instead: ${cancel}.`,
    );
  }

  /** A move between two pools of this node. @throws FailedPrecondition if it has arrived, or the part that has come may be the last copy */
  async withinNode(job: MoveJob, { isEvenSo }: Pick<Cancelling, 'isEvenSo'>): Promise<void> {
    const { objects, pools, rests } = this.#options;
    const { id, moveId } = job;
    const source = rests.isSourceKnown(job) ? pools.get(job.from) : undefined;
    await objects.claim([{ object: id }], 'the end of a move', async () => {
      const state = source && (await source.find(id)) && (await movesOf(source).stateOf(id));
      if (state === undefined && (await hasVolume(pools, id))) throw arrived(job);
      const isOurs = state?.mark.fence?.moveId === moveId;
      const isOld = state !== undefined && (await this.#isOld(job, state));
      const isHandedOver = state?.why === 'given' && isOurs;
      const isGiven = isHandedOver || (isOld && (await this.#isOnlyCopy(job)));
      // It may have the volume, unless it is open and has not, or is no pool of this node any more.
      const isTarget = (isGiven && pools.names().includes(job.to)) || pools.isOpen(job.to);
      const target = isTarget ? pools.get(job.to) : undefined;
      if (target !== undefined && (await hasArrived(target, id))) throw arrived(job);
      if (!isEvenSo) await this.requireNotLast(job, state);
      if (source !== undefined && isGiven) {
        await this.#requireNoneLater(source, id, state, rests.isTargetKnown(job) ? undefined : job.to);
        if (!isEvenSo && isOld) throw earlierWithin(id, job.from);
        if (!isEvenSo && isHandedOver) await this.#requireWaiting(id, job.from, state.mark, job);
        await movesOf(source).takeBack(id);
      } else if (source !== undefined && isOurs) await movesOf(source).open(id, moveId);
      // The last thing: where the volume cannot be taken back, the copy stays.
      if (target !== undefined) await movesOf(target).discard(id);
    });
    if (source !== undefined) await removeSnapshots(source, job);
  }

  /**
   * Before the copy becomes the volume that a pool has handed over to another one of this node: all of it still waits there.
   * @param job undefined: the node's own disk was lost
   * @throws FailedPrecondition if the volume may have come there, and been used
   */
  async #requireWaiting(id: VolumeId, from: string, given: CopyMark, job?: MoveJob): Promise<void> {
    const { pools } = this.#options;
    const arrivedAt = job && arrivalOf(job, given);
    if (arrivedAt === undefined) {
      for (const { moves, name } of pools.all()) {
        if (moves === undefined || (job !== undefined && name !== job.to)) continue;
        const readUnder = await readUnderIn(moves, id);
        if (readUnder !== undefined && readUnder === given.fence?.fenceId) return;
      }
    }
    throw hasLeft(id, { from, to: job?.to, arrivedAt });
  }

  /**
   * Before an earlier copy of this node, or one that was handed over, becomes the volume: no pod of this node uses a later one, nor
   * does a pool have one in its trash.
   * @param lostPool the target of the move of the volume, if that is no pool of this node any more
   * @throws FailedPrecondition
   */
  async #requireNoneLater(pool: Pool, id: VolumeId, state: CopyState, lostPool?: string): Promise<void> {
    await this.#options.copies.requireNotStaged(id);
    const record = await pool.find(id);
    const trashed = await latestTrashed(this.#options.pools, id);
    const { generation } = state.mark;
    if (!isLaterTrashed(trashed, { createdAt: record?.createdAt, generation })) return;
    const [elsewhere, noted] = [await trashed.pool.moves?.whereElse(id), await movesOf(pool).noted(id)];
    const place = elsewhere === undefined ? undefined : { here: noted.node, elsewhere };
    throw laterTrashed(id, pool.name, { later: trashed.pool.name, lostPool, place });
  }

  /** True if the source has an earlier copy, and not the one that was read to its end and was about to be handed over. */
  async #isOld(job: MoveJob, state: CopyState): Promise<boolean> {
    return (
      isEarlier(state) &&
      (state.why === 'old' || state.mark.fence?.fenceId !== (await this.#options.rests.readUnder(job)))
    );
  }

  /**
   * True if no other pool of this node has a copy, and no other node. An earlier one is the only one if its disk is as it was before the
   * hand-over, or if an operator has ordered the end of its move without it, which has not come to its end.
   */
  async #isOnlyCopy({ from, id }: MoveJob): Promise<boolean> {
    const { pools } = this.#options;
    requireOpen(pools, id);
    const isElsewhere = (await movesOf(pools.get(from)).whereElse(id)) !== undefined;
    return !isElsewhere && (await poolsWith(pools, id)).length === 1;
  }

  /**
   * A move from another node, which may have handed the volume over: the note that nothing is committed here any more is durable
   * before it takes the volume back.
   * @throws FailedPrecondition if it has arrived, or the part that has come may be the last copy; Unavailable while that node does not answer
   */
  async fromNode(
    job: MoveJob,
    node: string,
    { isNodeLost, order }: { readonly order: Cancelling; readonly isNodeLost: boolean },
  ): Promise<void> {
    const { objects, pools } = this.#options;
    const { id, to } = job;
    await objects.claim([{ object: id }], 'the end of a move', async () => {
      if (await hasVolume(pools, id)) throw arrived(job);
      // One that is no pool of this node any more has nothing that could be used: the notes are on another disk.
      const target = pools.names().includes(to) ? movesOf(pools.get(to)) : undefined;
      const seen = isNodeLost ? 'unknown' : await this.#look(job, node, order);
      if (!order.isEvenSo) await this.requireNotLast(job, seen, { isNodeLost });
      // Its caller may order by now that this very copy becomes the volume.
      if (seen === 'unknown') requireInTime(id, order.deadline);
      const isAtSource = isThere(seen)
        ? await this.#endAtSource(job, node, { target, state: seen.state, asking: order })
        : isSeen(seen);
      await target?.discard(id);
      if (!isAtSource) order.isUnseen = true;
    });
  }

  async #look(job: MoveJob, node: string, asking: Cancelling): Promise<SourceAnswer> {
    const { rests } = this.#options;
    asking.waitsFor = `node ${node} has not said whether it has handed the volume over, and nothing has changed`;
    try {
      return await rests.lookAtSource(job, endingBy(asking.deadline, notCancelled(job.id, asking)));
    } catch (error) {
      // A part can never become the volume, whatever its source has. A whole copy may be the last one, as the second word says, if that node is
      // well, and its pool is lost.
      const isPart = (await rests.readUnder(job)) === undefined;
      if (asking.isEvenSo && error instanceof Unavailable && (isPart || error instanceof PoolAway)) return 'unknown';
      // The second word is shown together with what it removes.
      if (error instanceof PoolAway) throw isPart ? partOf(error, job) : await this.#lastCopy(job, node);
      throw error;
    }
  }

  /**
   * The volume is where it was, if this move has fenced it. An earlier copy there, or one of another move, stays as it is.
   * @returns true: that has the volume
   */
  async #endAtSource(
    job: MoveJob,
    node: string,
    {
      asking,
      state,
      target,
    }: { readonly asking: Cancelling; readonly state: CopyState; readonly target: PoolMoves | undefined },
  ): Promise<boolean> {
    const { copies, rests } = this.#options;
    const { id, moveId } = job;
    const isOurs = state.mark.fence?.moveId === moveId && (asking.isEvenSo || !(await this.#isOld(job, state)));
    if (!isOurs && !isVolume(state)) return false;
    const source = rests.sourceOf(job, endingBy(deadlineWithin(planMs), notCancelled(id, asking)));
    if (isOurs) {
      if (state.why === 'given') {
        requireInTime(id, asking.deadline);
        const isUncommitted = target !== undefined && (await this.#isUncommitted(target, id, state.mark));
        const lost = asking.isEvenSo && (await this.#hasCome(id, state.mark)) ? 'pool' : undefined;
        const word = await copies.giveUp(id, state.mark, { lost, source: node, to: target });
        asking.waitsFor = `this node has given up its copy, and node ${node} has not said that the volume is there again`;
        await source.takeBack(word);
        if (isUncommitted) asking.isUncommitted = true;
      } else {
        asking.waitsFor = `node ${node}, which has the volume, has not ended its fence yet`;
        await source.open();
      }
    }
    await source.removeSnapshots();
    return true;
  }

  /** True if this node has noted that the volume is here. No pool of it has it: its disk is lost, if the order says so. @throws Unavailable */
  async #hasCome(id: VolumeId, given: CopyMark): Promise<boolean> {
    const { copies, pools } = this.#options;
    const noted = await copies.noteOf(id);
    if (noted === undefined || !hasCome(given, noted)) return false;
    requireOpen(pools, id);
    return true;
  }

  /**
   * True if no disk has the volume that was handed over with that mark: all of the copy still waits here, and this node has not noted, on
   * another disk, that it may commit it. The disk here may be as it was before the commit.
   */
  async #isUncommitted(target: PoolMoves, id: VolumeId, given: CopyMark): Promise<boolean> {
    const readUnder = await readUnderIn(target, id);
    const isWaiting = readUnder !== undefined && readUnder === given.fence?.fenceId;
    return isWaiting && !mayHaveCommitted(given, await target.noted(id));
  }

  /**
   * Ends the fence of a move that this node knows nothing of, as its own disk was lost: otherwise the volume could never be used
   * again. A copy that was handed over is the volume again if no pool of the node has another one; else it goes to the trash.
   * @throws NotFound if there is none; FailedPrecondition if it is an earlier copy, unless the order says `isEvenSo`
   */
  async free(id: VolumeId, { deadline, isEvenSo, isTrial = false, lost }: Freeing): Promise<MoveJob> {
    const { objects, peers, pools } = this.#options;
    requireOpen(pools, id);
    return objects.claim([{ object: id }], 'the end of a move', async () => {
      const copies = await copiesIn(pools, id);
      const valid = copies.find(({ state }) => state.why === undefined);
      const left = latestOf(copies.filter(({ state }) => state.why !== undefined));
      if (left === undefined) {
        const removed = isTrial ? undefined : await this.#removeUnknown(id, isEvenSo);
        if (removed !== undefined) return removed;
        const { endedAt, state } = this.#options.endedJob(id) ?? {};
        const last = state === 'cancelled' ? `; its last move was cancelled at ${endedAt}` : '';
        throw new NotFound(`volume ${id} is not moving${last}: see holdfast move status.`);
      }
      const { pool, state } = left;
      const { fence } = state.mark;
      const moveId = fence?.moveId ?? '';
      const startedAt = new Date().toISOString();
      const { name } = valid?.pool ?? pool;
      const freed = { moveId, id, from: name, to: name, startedAt, state: 'cancelled', endedAt: startedAt } as const;
      const isLeft = valid === undefined && state.why !== 'closed';
      if (isLeft) {
        await this.#requireTakeable(left, id, { isEvenSo, isTrial, lost });
        requireInTime(id, deadline);
      }
      if (isTrial) return freed;
      if (valid !== undefined) await movesOf(pool).settle(id, { moveId, generation: valid.state.mark.generation });
      else if (isLeft) await movesOf(pool).takeBack(id, lost);
      else await movesOf(pool).open(id, moveId);
      if (moveId !== '') await removeSnapshots(pool, { id, moveId });
      await peers?.takenBack(id);
      return freed;
    });
  }

  /** Before a copy that is left here becomes the volume. @throws FailedPrecondition */
  async #requireTakeable(
    { pool, state }: CopyIn,
    id: VolumeId,
    { isEvenSo, isTrial, lost }: Omit<Freeing, 'deadline'>,
  ): Promise<void> {
    const moves = movesOf(pool);
    await this.#requireNoneLater(pool, id, state);
    const noted = await moves.noted(id);
    const elsewhere = await moves.whereElse(id);
    // A driver that was killed as it handed the volume over knows of that move.
    if (isEarlier(state, noted)) {
      const copy = { mark: state.mark, noted, pool: pool.name };
      if (elsewhere !== undefined && lost === undefined) throw waitsElsewhere(id, elsewhere, copy);
      const isThere = isTrial === true || lost?.disclaimed !== undefined;
      if (!isEvenSo) throw earlierCopy(id, copy, lost && { isThere, node: lost.lostNode });
    }
    if (elsewhere === undefined && lost === undefined && !isEvenSo) {
      await this.#requireWaiting(id, pool.name, state.mark);
    }
  }

  /**
   * Removes the part of a volume that has come by a move which this node knows nothing of, as its own disk was lost.
   * @returns undefined if there is none @throws FailedPrecondition without a second word: it may be the last copy
   */
  async #removeUnknown(id: VolumeId, isEvenSo: boolean): Promise<MoveJob | undefined> {
    for (const pool of this.#options.pools.all()) {
      const { moves, name } = pool;
      if (moves === undefined || !(await moves.arriving()).includes(id)) continue;
      if (!isEvenSo) {
        const job = this.#options.endedJob(id);
        const here = (await moves.noted(id)).node;
        throw job?.state === 'done' && job.to === name ? partOfOldDisk(job, here) : unknownPart(id, name);
      }
      await moves.discard(id);
      const startedAt = new Date().toISOString();
      return { moveId: '', id, from: '', to: name, startedAt, state: 'cancelled', endedAt: startedAt };
    }
    return undefined;
  }
}

/** Makes the error, with the words of that time. */
export function notCancelled(id: VolumeId, order: Cancelling): () => Unavailable {
  return () =>
    new Unavailable(
      `the move of volume ${id} is not cancelled yet: ${order.waitsFor}. The same command again goes on from there.`,
    );
}

function lastWithin({ from, id, to }: MoveJob): FailedPrecondition {
  return new FailedPrecondition(
    `volume ${id} may have been handed over by pool ${from}, which is not in the configuration, or whose disk is not there: what pool ${to} has of it may be the last copy, and stays. Put pool ${from} and its disk back; if it is lost, that copy becomes the volume: holdfast move finish ${id} --pool-is-lost ${from}. To remove it instead: holdfast move cancel ${id} --even-so.`,
  );
}

function damaged({ from, id, node, to }: MoveJob, { message }: DataLoss, here = 'THIS'): FailedPrecondition {
  const [where, finish, cancel] =
    node === undefined
      ? ['', `holdfast move finish ${id}`, `holdfast move cancel ${id}`]
      : [
          ` of node ${node}`,
          `kubectl holdfast move finish ${id} --node ${here}`,
          `kubectl holdfast move cancel ${id} --node ${here}`,
        ];
  return new FailedPrecondition(
    `${message} That is the copy in pool ${from}${where}. All of the volume has come to pool ${to}: this copy stays, as it may be the last one. To have it: take pool ${from}${where} out of the configuration, restart that driver, then ${finish} --pool-is-lost ${from}. To remove it instead: ${cancel} --even-so.`,
  );
}

function partOf(away: PoolAway, { id, to }: MoveJob): Unavailable {
  return new Unavailable(
    `${away.message} Only a part of volume ${id} has come to pool ${to}, which can never become the volume: --even-so removes it, whether that pool comes back or not.`,
  );
}

function laterCopy({ from, id, to }: MoveJob): FailedPrecondition {
  return new FailedPrecondition(
    `pool ${from} has an earlier copy of volume ${id}, as its disk was put back: what pool ${to} has of it may be the last copy, and stays. Put the later disk of pool ${from} back; if it is lost, the copy in pool ${to} becomes the volume: holdfast move finish ${id} --pool-is-lost ${from}. To have the earlier copy instead: holdfast move cancel ${id} --even-so.`,
  );
}

interface EarlierCopy {
  readonly pool: string;
  readonly mark: CopyMark;
  /** By its node. */
  readonly noted: Noted;
}

/** The reason why a copy is taken for an earlier one, as far as its node knows. */
function whyEarlier({ mark, noted }: EarlierCopy): string {
  return mayBeGivenUp(mark, noted)
    ? 'as its disk was put back, or as the copy was given up by an order which said that this disk is lost, and which was cut short'
    : 'as its disk was put back';
}

function earlierCopy(
  id: VolumeId,
  copy: EarlierCopy,
  other: { readonly node: string; readonly isThere: boolean } | undefined,
): FailedPrecondition {
  if (other === undefined) return earlierWithin(id, copy.pool);
  const lost = other.isThere ? '' : ` --node-is-lost ${other.node}`;
  return new FailedPrecondition(
    `pool ${copy.pool} has an earlier copy of volume ${id} than the one that went to node ${other.node}, ${whyEarlier(copy)}. If a disk has a later one, put that back. If none has, this one becomes the volume: kubectl holdfast move cancel ${id} --node ${copy.noted.node}${lost} --even-so.`,
  );
}

function waitsElsewhere(id: VolumeId, elsewhere: string, copy: EarlierCopy): FailedPrecondition {
  const { node } = copy.noted;
  return new FailedPrecondition(
    `pool ${copy.pool} has an earlier copy of volume ${id} than node ${elsewhere} has, or may have, ${whyEarlier(copy)}. If node ${elsewhere} is there, and has only what a move has brought there, kubectl holdfast move cancel ${id} --node ${elsewhere} --even-so removes that; then kubectl holdfast move cancel ${id} --node ${node} --even-so makes this copy the volume. If node ${elsewhere} will never come back: --node-is-lost ${elsewhere}.`,
  );
}

function earlierWithin(id: VolumeId, pool: string): FailedPrecondition {
  return new FailedPrecondition(
    `pool ${pool} has an earlier copy of volume ${id}, which has moved from there to a pool that is not in the configuration, or has another disk. Put that pool and its disk back. If it is lost, the earlier copy becomes the volume: holdfast move cancel ${id} --even-so.`,
  );
}

/** @param to undefined: the pool is not known */
function hasLeft(
  id: VolumeId,
  {
    arrivedAt,
    from,
    to,
  }: { readonly from: string; readonly to: string | undefined; readonly arrivedAt: string | undefined },
): FailedPrecondition {
  const where = to === undefined ? 'another pool of this node' : `pool ${to}`;
  const come =
    arrivedAt === undefined
      ? `may have come to ${where}, and been used there`
      : `has come to ${where} at ${arrivedAt}, and may have been used there`;
  return new FailedPrecondition(
    `volume ${id} ${come}: the copy in pool ${from} is as it was when it was handed over. Put ${to === undefined ? 'that pool' : where} and its disk back. If it is lost, the copy in pool ${from} becomes the volume: holdfast move cancel ${id} --even-so.`,
  );
}

interface LaterTrashed {
  /** The pool with it. */
  readonly later: string;
  readonly lostPool: string | undefined;
  /** The volume may be on another node since. */
  readonly place: { readonly here: string; readonly elsewhere: string } | undefined;
}

function laterTrashed(id: VolumeId, pool: string, { later, lostPool, place }: LaterTrashed): FailedPrecondition {
  const within = `holdfast trash restore ${id}${lostPool === undefined ? '' : ` --pool-is-lost ${lostPool}`}`;
  const restore =
    place === undefined
      ? within
      : `kubectl ${within} --node ${place.here} --node-is-lost ${place.elsewhere} (or, if that node is there, --pool-is-lost POOL)`;
  return new FailedPrecondition(
    `pool ${later} has a later copy of volume ${id} in its trash than pool ${pool} has: ${restore}. To have the earlier one anyway, remove the later one from the trash first: holdfast trash purge ${id}.`,
  );
}

export function unknownPart(id: VolumeId, pool: string): FailedPrecondition {
  return new FailedPrecondition(
    `pool ${pool} has all of volume ${id}, or a part of it, from a move that this node knows nothing of, as its own disk was lost. If another node has the volume, or has handed it over, this part is not needed: kubectl holdfast move cancel ${id} --even-so, with this node as --node, removes it. Then kubectl holdfast move cancel ${id}, with that node as --node, makes the volume usable there again.`,
  );
}

function partOfOldDisk({ id, node, to }: MoveJob, here: string): FailedPrecondition {
  return new FailedPrecondition(
    `pool ${to} has all of volume ${id}, or a part of it, and no volume of it: the volume had come to this pool, whose disk is as it was before. Put the later disk back. If it is lost: kubectl holdfast move cancel ${id} --node ${here} --even-so removes that part; then kubectl holdfast trash restore ${id} --node ${node ?? here} --pool-is-lost ${to} makes the copy of the time of the switch the volume.`,
  );
}

export function arrived({ id, to }: MoveJob): FailedPrecondition {
  return new FailedPrecondition(`volume ${id} has arrived in pool ${to}: move it back instead.`);
}
