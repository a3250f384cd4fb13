import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { silentAfterMs } from '../../pool/condition.ts';
import type { PoolLog } from '../../pool/log.ts';
import { type CopyState, NotHandedOver } from '../../pool/moves.ts';
import type { Pool } from '../../pool/pool.ts';
import type { Pools } from '../../pool/pools.ts';
import { Aborted, FailedPrecondition, InvalidArgument, Unavailable } from '../../volume/errors.ts';
import type { ObjectQueue } from '../../volume/flow/object-queue.ts';
import { pause } from '../../volume/flow/pause.ts';
import { withTimeout } from '../../volume/flow/with-timeout.ts';
import type { SnapshotId, VolumeId } from '../../volume/id.ts';
import { type CopyMark, mayBeLast } from '../../volume/move/rule.ts';
import { type SnapshotRecord, serializeSnapshot } from '../../volume/snapshot-record.ts';
import { step } from '../../volume/step.ts';
import { anyMoves } from '../copies.ts';
import { type LostOrder, type LostPool, requireInTime } from '../in-time.ts';
import {
  type ComingSnapshot,
  endedJob,
  forgettable,
  hasWaiting,
  isLongPast,
  type LeftSnapshot,
  type MoveJob,
  MoveJobs,
  type NamedSnapshot,
  noSnapshots,
  type SnapshotsOfJob,
  turnOf,
  type WaitingSnapshot,
} from '../job.ts';
import { BytesPerSecond } from '../pace.ts';
import type { Peers } from '../peers.ts';
import { MoveEnded, MoveForgotten, movesOf, NotConnected, patiently } from '../source.ts';
import { copiesAtATime, TurnsPerPlace } from '../turns/read-turns.ts';
import { DeletedSnapshots } from './deleted-snapshots.ts';
import { finishSnapshot } from './finish.ts';
import { type CancelledLeaving, type Held, inOrder, type OtherNode, PoolHeld } from './held.ts';
import { LeftCopies } from './left-copies.ts';
import { mayBeWhole, moveSnapshot, SnapshotArrivedAndGone } from './snapshot-move.ts';
import { SnapshotSpace } from './snapshot-space.ts';
import { discardBeside, hasAllData, requireAllData } from './survivor.ts';
import { outdateTakenBack, removeDeleted } from './taken-back.ts';
import { isOfSnapshot, shownWaiting, stillWaiting, waitingIn } from './waiting.ts';

export interface SnapshotMoverOptions {
  readonly pools: Pools;
  readonly objects: ObjectQueue;
  /** The driver's own directory, HOLDFAST_DATA. */
  readonly dataDirectory: string;
  readonly queue: DiskQueue;
  readonly log: PoolLog;
  /** The other nodes; undefined: snapshots move between pools of this one only. */
  readonly peers?: Pick<Peers, 'leavingSnapshots' | 'snapshots'> | undefined;
}

/** The order that the snapshots of a volume follow it. */
export type SnapshotsJob = MoveJob & { readonly snapshots: SnapshotsOfJob };

export interface SnapshotsProgress {
  /** The number of snapshots that this process has found. */
  total: number;
  /** The one that is being copied. */
  current: string | undefined;
  /** Bytes of that one. */
  doneBytes: bigint;
  totalBytes: bigint;
}

/** The snapshots that follow a volume, and how far they have come; undefined: no longer. */
export interface SnapshotsSight {
  readonly job: SnapshotsJob;
  readonly progress: SnapshotsProgress | undefined;
  /** The reason why they wait. */
  readonly trouble: string | undefined;
  /** They wait for the controller to connect this node with the one that they come from. */
  readonly isUnconnected: boolean;
}

/** The snapshots of a volume before they follow it. */
export interface SnapshotsPlan {
  readonly moving: readonly { readonly record: SnapshotRecord; readonly pool: string }[];
  readonly staying: readonly LeftSnapshot[];
  /** The space that they may take, at most. */
  readonly neededBytes: bigint;
}

interface Run {
  job: SnapshotsJob;
  readonly progress: SnapshotsProgress;
  readonly ending: AbortController;
  /** The one that is being moved, and the end of that. */
  current: { readonly id: SnapshotId; readonly ending: AbortController; readonly done: Promise<unknown> } | undefined;
  trouble: string | undefined;
  isUnconnected: boolean;
  /** Ends the pause before the next try. */
  wake: AbortController;
  done: Promise<void>;
}

/** The pause before a snapshot is tried again that was handed over, or whose pool is not open. */
const retryMs = 10_000;
/** The pause before the note of the end is written again. */
const noteRetryMs = 1_000;
/** The time for which a removal waits for the end of a move. */
const removedMs = 10_000;
/** The time for which a call waits until the moves are known that an earlier driver has left. */
const readyMs = 5_000;
/** The time for a few short calls at another node. */
const undoneMs = 30_000;

/**
 * Snapshots that follow their volume to a pool of this node, from its other pools or from another node, one after the other and the newest first: so each begins as a
 * clone of the one that is there already and most like it. The volume has moved before, and does not wait for them.
 */
export class SnapshotMover {
  readonly #options: SnapshotMoverOptions;
  readonly #jobs: MoveJobs;
  readonly #deleted: DeletedSnapshots;
  readonly #leftCopies: LeftCopies;
  readonly #runs = new Map<VolumeId, Run>();
  readonly #ended = new Map<VolumeId, SnapshotsJob>();
  /** Jobs that an earlier driver has left, which go on once the pools are open. */
  readonly #left = new Map<VolumeId, SnapshotsJob>();
  /** By the pools that they go to. */
  readonly #turns = new TurnsPerPlace(copiesAtATime);
  #learning: Promise<void> | undefined;
  #isKnown = false;
  #isStopping = false;

  constructor(options: SnapshotMoverOptions) {
    this.#options = options;
    this.#jobs = new MoveJobs(options.dataDirectory, options.queue, 'snapshot-moves');
    this.#deleted = new DeletedSnapshots(options.dataDirectory, options.queue, () => options.pools.names());
    const isComing = () => this.#comingJobs().length > 0;
    this.#leftCopies = new LeftCopies({ ...options, retryMs, deleted: this.#deleted, isComing });
    options.pools.comingFrom = (id) => this.#comingFrom(id);
  }

  /** Reads the notes of a driver before this one. A pool that is not open must not keep that back. */
  learn(): Promise<void> {
    this.#learning ??= this.#learn().catch((error: unknown) => {
      // The next call tries again.
      this.#learning = undefined;
      throw error;
    });
    return this.#learning;
  }

  async #learn(): Promise<void> {
    const { log } = this.#options;
    for (const error of await this.#deleted.read()) log.error({ err: error }, 'the note of a deletion cannot be read');
    const { jobs, problems } = await this.#jobs.read();
    for (const error of problems) log.error({ err: error }, 'the note of a move cannot be read');
    for (const job of jobs) {
      if (!isOfSnapshots(job)) continue;
      if (job.state === 'running') this.#left.set(job.id, job);
      else if (isLongPast(job)) await this.#jobs.forget(job.id);
      else this.#ended.set(job.id, job);
    }
    this.#isKnown = true;
  }

  /** Takes up what a driver before this one has left. The pools are open. */
  async resume(): Promise<void> {
    await this.learn();
    for (const job of this.#left.values()) {
      if (!this.#isStopping && !this.#runs.has(job.id)) this.#begin(job);
    }
    if (!this.#isStopping) void this.#leftCopies.remove();
  }

  /** Forgets orders whose end is reported no more, and by whose note no copy can become the snapshot. Never rejects. */
  async forgetEnded(): Promise<void> {
    for (const job of [...this.#ended.values()].filter(hasWaiting)) {
      await this.#withEnded(job, async () => {
        const waiting = await this.#waiting(job);
        if (waiting.length < waitingIn(job).length) await this.#noteWaiting(job, waiting);
      });
    }
    for (const job of forgettable(this.#ended.values())) {
      await this.#withEnded(job, async () => {
        await this.#jobs.forget(job.id);
        this.#ended.delete(job.id);
      });
    }
  }

  /** Does something with an order that has ended, unless they were ordered again. Never rejects. */
  async #withEnded(job: SnapshotsJob, work: () => Promise<void>): Promise<void> {
    const { log, objects } = this.#options;
    const { id } = job;
    await objects
      .claim([{ object: turnOf(id) }], 'the end of a move', async () => {
        if (!this.#isStopping && this.#ended.get(id) === job && !this.#runs.has(id)) await work();
      })
      .catch((error: unknown) => {
        // An order has its turn: next time.
        if (!(error instanceof Aborted))
          log.warn({ volume_id: id, err: error }, 'the end of a move cannot be forgotten');
      });
  }

  /** The copies of snapshots of the volume that wait, by the notes of this order and of the last one. */
  #waiting(job: SnapshotsJob): Promise<WaitingSnapshot[]> {
    const { id } = job;
    const named = waitingIn(job, this.#runs.get(id)?.job, this.#ended.get(id));
    return stillWaiting(
      this.#options.pools,
      named.filter((each) => !this.#deleted.isNoted(each)),
    );
  }

  async #noteWaiting(job: SnapshotsJob, waiting: readonly WaitingSnapshot[]): Promise<void> {
    const ended = { ...job, snapshots: withWaiting(job.snapshots, waiting) };
    await this.#jobs.write(ended);
    this.#ended.set(job.id, ended);
  }

  sights(): SnapshotsSight[] {
    const running = Array.from(this.#runs.values(), ({ isUnconnected, job, progress, trouble }) => {
      return { job, progress, trouble, isUnconnected };
    });
    const ended = [...this.#ended.values()].filter(({ id }) => !this.#runs.has(id));
    return [
      ...running,
      ...ended.map((job) => ({ job, progress: undefined, trouble: undefined, isUnconnected: false })),
    ];
  }

  /** Snapshots that were handed over to other nodes, which may have lost what they knew of that. */
  handedOver(): SnapshotsSight[] {
    const { peers, pools } = this.#options;
    const sights = new Map<string, SnapshotsSight>();
    for (const { moves, name: pool } of peers === undefined ? [] : pools.all()) {
      for (const { record, to: node } of moves?.snapshots.handedOver() ?? []) {
        const { createdAt, id, name, sourceId } = record;
        const key = `${sourceId} ${node}`;
        const { moveId = '', startedAt = createdAt } = peers?.leavingSnapshots.jobOf(sourceId) ?? {};
        const before = sights.get(key)?.job.snapshots.left ?? [];
        const one = { id, name, pool, reason: whyGiven(sourceId, node), stays: true };
        const snapshots = { pools: [], moved: 0, left: [...before, one] };
        const job = { moveId, id: sourceId, from: pool, to: '', node, startedAt, state: 'running', snapshots } as const;
        sights.set(key, { job, progress: undefined, trouble: undefined, isUnconnected: false });
      }
    }
    return [...sights.values()];
  }

  /** True if an order runs by which snapshots come from that node. @throws Unavailable while that is not known */
  isComingFrom(id: VolumeId, node: string): boolean {
    return this.comingOf(id) === node;
  }

  /** The node that snapshots of the volume are coming from; undefined: none. @throws Unavailable while that is not known */
  comingOf(id: VolumeId): string | undefined {
    return this.#comingJobs().find((job) => job.id === id)?.node;
  }

  /** The controller has connected this node with that one: what waits for it is tried again. */
  connected(node: string): void {
    for (const { isUnconnected, job, wake } of this.#runs.values())
      if (isUnconnected && job.node === node) wake.abort();
  }

  /** The running jobs of snapshots from other nodes. @throws Unavailable while they are not known */
  #comingJobs(): SnapshotsJob[] {
    if (!this.#isKnown) throw new Unavailable('the driver is starting, and its moves are not known yet; try again.');
    const running = Array.from(this.#runs.values(), ({ job }) => job);
    return [...this.#left.values(), ...running].filter(({ node }) => node !== undefined);
  }

  /** The node that the snapshot is coming from: whether it is here already is not certain before that one has heard of it. */
  async #comingFrom(id: SnapshotId): Promise<string | undefined> {
    if (!this.#isKnown) await withTimeout(readyMs, Promise.allSettled([this.learn()]));
    return this.#comingJobs().find(({ snapshots }) => snapshots.coming?.id === id)?.node;
  }

  /**
   * Nothing is changed.
   * @param from the node that they come from; undefined: the other pools of this one
   * @throws FailedPrecondition if the pool takes no snapshots, or they are on another way
   */
  async plan(id: VolumeId, to: Pool, from?: OtherNode): Promise<SnapshotsPlan> {
    await this.#requireFree(id);
    // Snapshots of the volume may be in a pool that is not open.
    if (from === undefined) for (const name of this.#options.pools.closed()) this.#requireKnown(name);
    const there = from === undefined ? this.#held(id, to.name) : await from.all();
    // One that has arrived, and whose source has not heard of it, takes nothing more.
    const held = there.filter(({ record }) => !this.#isHere(to, record.id));
    const [moving, staying] = [[] as Held[], [] as LeftSnapshot[]];
    for (const each of held) {
      if (each.whyStays === undefined) moving.push(each);
      else staying.push(left(each, each.whyStays, true));
    }
    // All of one volume are alike: what one of them needs, they all need.
    for (const { record } of moving) movesOf(to).snapshots.requireRoomFor(record);
    const waiting = await stillWaiting(this.#options.pools, waitingIn(this.#runs.get(id)?.job, this.#ended.get(id)));
    for (const each of waiting) {
      if (!moving.some(({ record }) => isOfSnapshot(each, record))) staying.push(shownWaiting(id, each));
    }
    const { totalBytes: neededBytes } = await SnapshotSpace.count(moving, movesOf(to).snapshots.unitBytes);
    return { moving: moving.map(({ pool, record }) => ({ record, pool })), staying, neededBytes };
  }

  #isHere(to: Pool, id: SnapshotId): boolean {
    const target = movesOf(to).snapshots;
    return target.find(id) !== undefined && !target.isLeft(id);
  }

  /** @throws FailedPrecondition while snapshots of the volume come from another node, or go to one */
  async #requireFree(id: VolumeId): Promise<void> {
    const node = this.comingOf(id);
    if (node !== undefined) {
      throw new FailedPrecondition(
        `the snapshots of volume ${id} are following it from node ${node}: see holdfast move status, or cancel that (holdfast move cancel ${id}).`,
      );
    }
    const target = await this.#options.peers?.leavingSnapshots.nodeFor(id);
    if (target === undefined) return;
    throw new FailedPrecondition(
      `the snapshots of volume ${id} are following it to node ${target}: wait for that, or cancel it (holdfast move cancel ${id}).`,
    );
  }

  /** The volume is in that pool now. Goes on behind the answer. */
  async launch({ from, id, limitBytesPerSecond, moveId, node, ticket, to }: MoveJob): Promise<SnapshotsSight> {
    const running = this.#runs.get(id);
    if (running?.job.moveId === moveId) return running;
    if (this.#isStopping) throw new Unavailable('the driver is stopping; try again.');
    // A plan was refused before.
    if (running?.job.node !== undefined) return running;
    running?.ending.abort(new Aborted('another move was ordered.'));
    await running?.done;
    const last = running?.job ?? this.#ended.get(id);
    // The order before this one may have left copies in a pool that is not open now.
    const before = poolsOf(last).filter((name) => name !== to);
    const waiting = last === undefined ? [] : await this.#waiting(last);
    const here = node === undefined ? this.#held(id, to) : [];
    // They wait for pools that are not open, too: snapshots may be there.
    const closed = node === undefined ? this.#options.pools.closed() : [];
    const pools = [...new Set([...here.map(({ pool }) => pool), ...closed, ...before])];
    const job: SnapshotsJob = {
      ...{ moveId, id, from: node === undefined ? pools.join(', ') : from, to },
      ...{ startedAt: new Date().toISOString(), state: 'running' },
      ...(node !== undefined && { node, ticket }),
      ...(limitBytesPerSecond !== undefined && { limitBytesPerSecond }),
      snapshots: withWaiting({ pools, moved: 0, left: [] }, waiting),
    };
    try {
      await step('move/note', () => this.#jobs.write(job));
    } catch (error) {
      // The order before this one stands.
      if (running !== undefined) this.#begin(running.job);
      throw error;
    }
    return this.#begin(job);
  }

  /**
   * Gives it up: snapshots that have moved stay there, and all others are where they were.
   * @param lost the node that may have them: a copy here becomes the snapshot
   * @param isEvenSo the second word of an operator: a pool that is not open is lost, or another node has not all data of one that it takes back
   * @returns undefined if none of this volume is moving
   */
  async cancel(id: VolumeId, lost?: LostOrder, isEvenSo = false): Promise<SnapshotsJob | undefined> {
    const run = this.#runs.get(id);
    const job = run?.job ?? this.#ended.get(id);
    if (run !== undefined && run.job.node !== undefined) {
      return this.#cancelFrom(run, { node: run.job.node, lost, isEvenSo });
    }
    await this.#removeDeleted(id);
    const { pools } = this.#options;
    const leaving = await this.#cancelLeaving(pools.all(), id, lost);
    const unsettled = await unsettledIn(pools.all(), id, lost);
    if (run === undefined && leaving === undefined && unsettled.length === 0) return undefined;
    run?.ending.abort(new Aborted('the move was cancelled.'));
    await run?.done;
    try {
      // Both at once: a pool that opens later was not looked at.
      for (const name of job?.snapshots.pools ?? []) this.#requireKnown(name);
      const open = pools.all();
      for (const each of await unsettledIn(open, id, lost)) await this.#undo(each, { lost });
      const startedAt = new Date().toISOString();
      // The run may have noted more of them that have moved.
      const left = leaving && { ...leaving.job, snapshots: noSnapshots };
      const last: SnapshotsJob = run?.job ??
        left ??
        job ?? {
          ...{ moveId: '', id, from: '', to: '', startedAt, state: 'running' },
          snapshots: noSnapshots,
        };
      return await this.#end(last, 'cancelled', this.#leftOf(last, 'the move was cancelled.'));
    } catch (error) {
      await leaving?.takeBack();
      if (run !== undefined && !this.#runs.has(id)) this.#begin(run.job);
      throw error;
    }
  }

  /**
   * They follow their volume to another node no longer: from then on its requests get nothing.
   * @returns undefined: they follow it to none
   * @throws FailedPrecondition once one was handed over to a node that is not lost: that one may have it; Unavailable while that is not known
   */
  async #cancelLeaving(
    open: readonly Pool[],
    id: VolumeId,
    lost: LostOrder | undefined,
  ): Promise<CancelledLeaving | undefined> {
    const { peers, pools } = this.#options;
    const isRunning = peers?.leavingSnapshots.jobOf(id)?.state === 'running';
    const closed = pools.firstClosed();
    if (isRunning && lost === undefined && closed !== undefined) {
      throw new Unavailable(
        `pool ${closed} is not open, and may have a snapshot of volume ${id} that was handed over to another node: try again when it is, or without that pool in the configuration, if it is lost.`,
      );
    }
    await this.#requireNoneGiven(open, id, lost);
    const leaving = await peers?.leavingSnapshots.cancel(id);
    try {
      // A request that came before has ended meanwhile, or gets nothing.
      await this.#requireNoneGiven(open, id, lost);
    } catch (error) {
      await leaving?.takeBack();
      throw error;
    }
    return leaving;
  }

  async #requireNoneGiven(open: readonly Pool[], id: VolumeId, lost: LostOrder | undefined): Promise<void> {
    const { objects } = this.#options;
    for (const held of await fencedIn(open, id)) {
      const { id: snapshotId } = held.record;
      await patiently({ objects, signal: AbortSignal.timeout(undoneMs) }, [snapshotId], async () => {
        const state = await held.look();
        const node = state?.why === 'given' ? state.mark.fence?.to : undefined;
        if (node === undefined || node === lost?.lostNode) return;
        throw new FailedPrecondition(
          `snapshot ${snapshotId} was handed over to node ${node}: cancel the move there (holdfast move cancel ${id}). If that node will never come back: --node-is-lost ${node}.`,
        );
      });
    }
  }

  /** The same where they come from another node. */
  async #cancelFrom(
    run: Run,
    {
      isEvenSo,
      lost,
      node,
    }: { readonly node: string; readonly lost: LostOrder | undefined; readonly isEvenSo: boolean },
  ): Promise<SnapshotsJob> {
    run.ending.abort(new Aborted('the move was cancelled.'));
    await run.done;
    try {
      if (node === lost?.lostNode) return await this.#end(run.job, 'cancelled', []);
      const to = this.#targetOf(run.job, isEvenSo);
      const from = this.#otherNode(run.job, AbortSignal.timeout(undoneMs));
      const { leftOnes } = await this.#undoAllFrom(from, run.job, isEvenSo);
      await this.#resolveComing(run, from, to);
      await from?.end('cancelled');
      return await this.#end(run.job, 'cancelled', leftOnes);
    } catch (error) {
      if (await this.#hasEndedThere(run, error, AbortSignal.timeout(undoneMs))) {
        return await this.#end(run.job, 'cancelled', []);
      }
      if (!this.#runs.has(run.job.id)) this.#begin(run.job);
      throw error;
    }
  }

  /**
   * The same once their order has ended, as its pool was no pool of this node any more, or where this node knows nothing of it: one that was
   * handed over to this node is the snapshot where it was.
   * @returns undefined if that node has none of those
   * @throws NotConnected
   */
  async cancelRest(job: SnapshotsJob, isEvenSo: boolean): Promise<SnapshotsJob | undefined> {
    const from = this.#otherNode(job, AbortSignal.timeout(undoneMs));
    try {
      const { leftOnes, undone } = await this.#undoAllFrom(from, job, isEvenSo);
      if (undone === 0) return undefined;
      await from?.end('cancelled');
      return await this.#end(job, 'cancelled', leftOnes);
    } catch (error) {
      // No order ends there before each one that it has handed over is at one of both ends.
      if (error instanceof MoveEnded) return undefined;
      // One that was given up as usual has left nothing there.
      if (error instanceof NotConnected && job.state === 'cancelled' && !hasWaiting(job)) return undefined;
      throw error;
    }
  }

  /** The order that may have ended before each snapshot of another node was at one of both ends; undefined: there is none. */
  unendedFrom(id: VolumeId): SnapshotsJob | undefined {
    const job = this.#ended.get(id);
    return job?.node !== undefined && job.state !== 'done' ? job : undefined;
  }

  /** All that another node has fenced for this one, or handed over to it. @returns also those that are there then */
  async #undoAllFrom(
    from: OtherNode | undefined,
    job: SnapshotsJob,
    isEvenSo: boolean,
  ): Promise<{ readonly leftOnes: readonly LeftSnapshot[]; readonly undone: number }> {
    const { pools } = this.#options;
    const leftOnes: LeftSnapshot[] = [];
    let undone = 0;
    for (const each of (await from?.all()) ?? []) {
      const fence = (await each.look())?.mark.fence;
      if (fence?.to === (await anyMoves(pools).snapshots.noted(each.record.id)).node) {
        undone += 1;
        if (!(await this.#undoFrom(each, job, isEvenSo))) continue;
      }
      const isHere = pools.all().some((pool) => pool.moves !== undefined && this.#isHere(pool, each.record.id));
      if (!isHere) leftOnes.push(left(each, each.whyStays ?? 'the move was cancelled.', each.whyStays !== undefined));
    }
    return { leftOnes, undone };
  }

  /**
   * The pool that they go to.
   * @returns undefined: it is no pool of this node any more, or not open, and given up by a second word
   * @throws Unavailable
   */
  #targetOf({ id, to }: SnapshotsJob, isEvenSo: boolean): Pool | undefined {
    const { pools } = this.#options;
    if (pools.isOpen(to)) return pools.get(to);
    if (isEvenSo || !pools.names().includes(to)) return undefined;
    throw new Unavailable(
      `pool ${to} of this node, which snapshots of volume ${id} come to, is not open, and may have one that was handed over: try again when it is. If it is lost, take it out of the configuration, or give the same command with --even-so: a copy that has come there is given up, and the one where it was is the snapshot again.`,
    );
  }

  /**
   * The node, or the pool of this node, that they come from is lost. Those of which all has come become the snapshots here, also if their order has
   * ended; the others are lost, unless that node or pool comes back after all: an order that runs goes on then.
   * @returns undefined if none comes from there, or not all of one has come
   * @throws FailedPrecondition, Unavailable: why not; the order goes on
   */
  async finish(id: VolumeId, lost: LostOrder | LostPool): Promise<SnapshotsJob | undefined> {
    const { objects, pools } = this.#options;
    const isMeant = ({ node, pool }: WaitingSnapshot) =>
      'lostPool' in lost ? node === undefined && pool === lost.lostPool : node === lost.lostNode;
    const run = this.#runs.get(id);
    if (!waitingIn(run?.job ?? this.#ended.get(id)).some(isMeant)) return undefined;
    run?.ending.abort(new Aborted('an operator finishes it.'));
    await run?.done;
    // It may have come to its end just now.
    let job = this.#ended.get(id) ?? run?.job;
    const isEnded = this.#ended.has(id);
    try {
      const meant = waitingIn(job).filter(isMeant);
      const there = await stillWaiting(pools, meant);
      const signal = AbortSignal.timeout(undoneMs);
      // A driver that was killed after the commit may have left a note of one that has become the snapshot.
      const failures: unknown[] = [];
      for (const each of there.length > 0 ? there : meant) {
        try {
          await finishSnapshot({ pools, objects, signal, lost: 'lostPool' in lost ? undefined : lost }, each);
          job = job && (await this.#noteFinished(job, each, isEnded));
        } catch (error) {
          // It keeps none of the others.
          failures.push(error);
        }
      }
      if (failures.length > 0) throw failures[0];
      return job;
    } finally {
      if (job !== undefined && !isEnded && !this.#runs.has(id) && !this.#isStopping) this.#begin(job);
    }
  }

  /** Without the note the same order finds it finished. */
  async #noteFinished(job: SnapshotsJob, finished: WaitingSnapshot, isEnded: boolean): Promise<SnapshotsJob> {
    const { coming, moved } = job.snapshots;
    const waiting = (job.snapshots.waiting ?? []).filter((each) => !isOfSnapshot(each, finished));
    const rest = coming !== undefined && isOfSnapshot(coming, finished) ? undefined : coming;
    const noted = { ...job, snapshots: { ...withWaiting(job.snapshots, waiting), coming: rest, moved: moved + 1 } };
    await this.#jobs.write(noted).catch(() => undefined);
    if (isEnded) this.#ended.set(job.id, noted);
    return noted;
  }

  /** undefined: they come from pools of this node. @throws NotConnected */
  #otherNode({ id, moveId, node }: SnapshotsJob, signal: AbortSignal): OtherNode | undefined {
    if (node === undefined) return undefined;
    const { peers } = this.#options;
    if (peers !== undefined) return peers.snapshots({ id, moveId, node }, signal);
    throw new Unavailable(`snapshots of volume ${id} come from node ${node}, and HOLDFAST_MOVE_ADDRESS is not set.`);
  }

  /**
   * Before a snapshot is removed where it is: no earlier copy of it is left. The caller has claimed it.
   * @returns the work for when it is gone
   * @throws Unavailable while it is being handed over
   */
  async beforeRemoval(id: SnapshotId): Promise<AfterRemoval> {
    const { peers, pools } = this.#options;
    const node = await this.#comingFrom(id);
    if (node !== undefined) {
      throw new Unavailable(
        `snapshot ${id} is coming here from node ${node}, which has not heard yet that it is here; try again (see holdfast move status).`,
      );
    }
    // Asked together: a pool that opens later was not looked at.
    const [open, closed] = [pools.all(), pools.closed()];
    const copies = await copiesOf(open, id);
    const [first] = copies;
    if (first === undefined) {
      if (closed.length === 0) await this.#removeLast(open, id);
      return nothingLeft;
    }
    const valid = copies.find(({ state }) => isUsable(state));
    if (valid === undefined) return this.#removeLeft(copies, { open, closed });
    const { sourceId } = first.record;
    const run = this.#runs.get(sourceId);
    const { createdAt } = valid.record;
    const { fence, generation } = valid.state.mark;
    const job = run?.job ?? this.#ended.get(sourceId);
    const isMoved = job !== undefined || fence !== undefined || generation > 0;
    const others = open.filter((pool) => pool !== valid.pool);
    const silent = isMoved ? await silentOnes(others) : [];
    const unseen = this.#unseen(job, [...closed, ...silent]);
    // A copy there must neither be the snapshot again nor stay.
    if (isMoved && unseen.length > 0) await this.#deleted.write({ id, createdAt, generation, pools: unseen });
    for (const { pool } of copies) if (pool !== valid.pool) await movesOf(pool).snapshots.removeLeft(id);
    if (fence?.to !== undefined) {
      await peers?.leavingSnapshots.removing(sourceId, id, createdAt);
      await peers?.leavingSnapshots.endReads(id);
    }
    if (run?.current?.id === id) {
      run.current.ending.abort(new Aborted('the snapshot was deleted.'));
      if ((await withTimeout(removedMs, run.current.done)) === 'late') {
        throw new Unavailable(
          `the move of snapshot ${id}, which is about to be deleted, has not ended yet; try again.`,
        );
      }
    }
    if (!isMoved) return nothingLeft;
    // Nothing that was copied of it stays readable.
    for (const { moves, name } of others) if (!silent.includes(name)) await moves?.snapshots.discard(id);
    return async () => {
      if (unseen.length > 0) void this.#leftCopies.remove();
    };
  }

  /** The pools that may have a copy which is not seen: one that the configuration has no more may come back, too. */
  #unseen(job: SnapshotsJob | undefined, closed: readonly string[]): string[] {
    const names = this.#options.pools.names();
    return [...new Set([...closed, ...poolsOf(job).filter((name) => !names.includes(name))])];
  }

  /**
   * Removes the copies of a snapshot that no pool has, and that comes to none: the pool that it moved to is lost.
   * @throws Unavailable if it may be somewhere
   */
  async #removeLeft(copies: readonly Copy[], { closed, open }: Looked): Promise<AfterRemoval> {
    const [{ pool, record }] = copies as readonly [Copy, ...Copy[]];
    const { createdAt, id, sourceId } = record;
    const [away] = closed;
    if (away !== undefined) {
      throw new Unavailable(
        `snapshot ${id} was handed over by pool ${pool.name}, and may be in pool ${away}, which is not open: try again when it is, or without it in the configuration, if it is lost.`,
      );
    }
    const waiting = await Promise.all(copies.map((copy) => movesOf(copy.pool).snapshots.waits(id)));
    const isMoving = this.#runs.has(sourceId) || this.#left.has(sourceId);
    if (isMoving || waiting.includes(false)) {
      throw new Unavailable(
        `snapshot ${id} is being handed over to another pool, or node; try again (see holdfast move status).`,
      );
    }
    const unseen = this.#unseen(this.#ended.get(sourceId), closed);
    // The one that was the snapshot has this generation.
    const { generation } = await movesOf(pool).snapshots.noted(id);
    if (unseen.length > 0) await this.#deleted.write({ id, createdAt, generation: generation + 1, pools: unseen });
    await movesOf(pool).snapshots.noteDeleted(id);
    for (const copy of copies) await movesOf(copy.pool).snapshots.removeLeft(id);
    for (const { moves } of open) await moves?.snapshots.discard(id);
    return nothingLeft;
  }

  /** @throws Unavailable if a snapshot of this volume was deleted and a copy of it is left: it must not be the snapshot again */
  async #removeDeleted(id: VolumeId): Promise<void> {
    const failed = await this.#leftCopies.removeDeleted();
    for (const { moves, name } of this.#options.pools.all()) {
      const left = moves?.snapshots.all(id).find((record) => failed.has(record.id));
      if (left === undefined) continue;
      throw new Unavailable(
        `snapshot ${left.id} was deleted, and a copy of it in pool ${name} cannot be removed: the driver's log says why.`,
      );
    }
  }

  /** The pool that has handed it over may be no pool of the node any more: the copy that has not arrived is all there is. */
  async #removeLast(open: readonly Pool[], id: SnapshotId): Promise<void> {
    const { pools } = this.#options;
    const running = Array.from(this.#runs.values(), ({ job }) => job);
    const named = waitingIn(...running, ...this.#ended.values()).filter((each) => each.id === id);
    for (const { createdAt, to, whole } of named) {
      if (pools.names().includes(to)) continue;
      // It must not wait there again once that pool is in the configuration.
      await this.#deleted.write({ id, createdAt, generation: whole.generation + 1, pools: [to] });
    }
    for (const { moves } of open) {
      if ((await moves?.snapshots.arriving())?.includes(id) === true) await moves?.snapshots.discard(id);
    }
    const [moves] = open.flatMap((pool) => pool.moves ?? []);
    await moves?.noteDeleted(id);
    for (const job of this.#ended.values()) {
      const rest = waitingIn(job).filter((each) => each.id !== id);
      if (rest.length === waitingIn(job).length) continue;
      await this.#withEnded(job, () => this.#noteWaiting(job, rest));
    }
  }

  /** Leaves all to the next start. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    const runs = [...this.#runs.values()];
    for (const { ending } of runs) ending.abort(new Unavailable('the driver is stopping'));
    await Promise.all([...runs.map(({ done }) => done), this.#leftCopies.stop()]);
  }

  #begin(job: SnapshotsJob): Run {
    const progress = { total: 0, current: undefined, doneBytes: 0n, totalBytes: 0n };
    const ending = new AbortController();
    const run: Run = {
      ...{ job, progress, ending, current: undefined, trouble: undefined, isUnconnected: false },
      ...{ wake: new AbortController(), done: Promise.resolve() },
    };
    this.#ended.delete(job.id);
    this.#left.delete(job.id);
    this.#runs.set(job.id, run);
    run.done = this.#run(run)
      .catch((error: unknown) =>
        this.#options.log.error({ volume_id: job.id, err: error }, 'the move of snapshots has stopped'),
      )
      .finally(() => this.#runs.delete(job.id));
    return run;
  }

  async #run(run: Run): Promise<void> {
    const { log } = this.#options;
    const { ending, job, progress } = run;
    /** The ones that do not move in this try, each with the reason. */
    const passed = new Map<SnapshotId, LeftSnapshot>();
    let space: SnapshotSpace | undefined;
    let isResolved = false;
    while (!ending.signal.aborted) {
      let held: Held | undefined;
      try {
        const from = this.#otherNode(job, ending.signal);
        for (const name of job.snapshots.pools) this.#requireKnown(name);
        const to = this.#options.pools.get(job.to);
        await this.#removeDeleted(job.id);
        if (!isResolved) await this.#resolve(to, job.id);
        if (!isResolved) await this.#resolveComing(run, from, to);
        if (!isResolved) await this.#resolveWaiting(run, from);
        isResolved = true;
        const found = from === undefined ? this.#held(job.id, job.to) : await from.all();
        const target = movesOf(to).snapshots;
        // The order means no snapshot that was taken since.
        const meant = run.job.snapshots.shares ?? [];
        const isMeant = ({ record, whyStays }: Held) => whyStays !== undefined || isNamed(meant, record);
        const all = run.job.snapshots.shares === undefined ? found : found.filter(isMeant);
        if (space === undefined) {
          const moving = all.filter(({ whyStays }) => whyStays === undefined);
          space = await SnapshotSpace.count(moving, target.unitBytes, meant);
          await this.#note(run, { shares: space.shares });
        }
        progress.total = Math.max(progress.total, all.length);
        held = all.find(({ record }) => !passed.has(record.id));
        if (held === undefined) {
          await this.#resolveComing(run, from, to);
          await from?.end('done').catch((error: unknown) => this.#warnOfEnd(job, error));
          const isThere = new Set<string>(all.map(({ record }) => record.id));
          // It has lost one of them, and the copy here is not the snapshot.
          const isOneLost = (await this.#waiting(run.job)).some(({ node }) => node === job.node);
          return await this.#endPatiently(
            run,
            isOneLost ? 'failed' : 'done',
            [...passed.values()].filter(({ id }) => isThere.has(id)),
          );
        }
        const { coming } = run.job.snapshots;
        // The last one may have been deleted where it was, while this waited.
        if (coming !== undefined && !isOfSnapshot(coming, held.record)) await this.#resolveComing(run, from, to);
        const isThere = (id: SnapshotId) => this.#isHere(to, id);
        await this.#requireVolumeIn(to, held);
        using _turn = await this.#turn(run, held);
        await this.#moveOne(run, held, to, space.neededBytes(held.record, isThere));
        await this.#note(run, { moved: run.job.snapshots.moved + 1, coming: undefined });
        run.trouble = undefined;
      } catch (error) {
        if (ending.signal.aborted) return;
        const reason = error instanceof Error ? error.message : String(error);
        if (await this.#hasEndedThere(run, error, ending.signal)) {
          return await this.#endPatiently(run, 'failed', [...passed.values()], reason);
        }
        if (held !== undefined && !(await isForLater(held, error))) {
          const { id } = held.record;
          if (held.whyStays === undefined) {
            log.error({ volume_id: job.id, snapshot_id: id, err: error }, 'the move of a snapshot failed');
          }
          if (await this.#giveUp(run, held, job.to)) {
            passed.set(id, left(held, reason, held.whyStays !== undefined));
            continue;
          }
        }
        if (held === undefined && error instanceof InvalidArgument) {
          await this.#endPatiently(run, 'failed', this.#leftOf(job, reason), reason);
          return;
        }
        run.isUnconnected = error instanceof NotConnected;
        if (run.trouble !== reason) {
          log.warn({ volume_id: job.id, reason }, 'the move of snapshots waits, and is tried again');
        }
        run.trouble = reason;
        await pause(retryMs, AbortSignal.any([ending.signal, run.wake.signal]));
        run.wake = new AbortController();
        run.isUnconnected = false;
      }
    }
  }

  /** True if an operator has ended it at the first node, or that knows nothing of it: nothing is handed over any more. */
  async #hasEndedThere(run: Run, error: unknown, signal: AbortSignal): Promise<boolean> {
    if (!(error instanceof MoveEnded)) return false;
    return error instanceof MoveForgotten || (await this.#settleTakenBack(run, signal));
  }

  /** Its source may have taken the last one back, or have none by now. @returns false while that does not answer */
  async #settleTakenBack(run: Run, signal: AbortSignal): Promise<boolean> {
    const { job } = run;
    const { log, pools } = this.#options;
    const { coming } = job.snapshots;
    try {
      if (coming !== undefined) await this.#resolveComing(run, this.#otherNode(job, signal), pools.get(job.to));
      return true;
    } catch (error) {
      if (error instanceof Unavailable) return false;
      log.warn({ volume_id: job.id, snapshot_id: coming?.id, err: error }, 'an earlier copy of a snapshot is left');
      return true;
    }
  }

  /** @throws FailedPrecondition if the volume has moved on: its snapshots stay, but for one that was handed over */
  async #requireVolumeIn(to: Pool, held: Held): Promise<void> {
    const { name } = to;
    const { id: snapshotId, sourceId } = held.record;
    if ((await held.look())?.why === 'given') return;
    const { at } = await movesOf(to).noted(sourceId);
    if (at !== undefined) {
      throw new FailedPrecondition(
        `snapshot ${snapshotId} does not follow its volume to pool ${name}, as that has gone on to node ${at} by now: order the move of the snapshots to the node of the volume.`,
      );
    }
    // A pool that does not answer keeps nothing back.
    const volume = await this.#options.pools.find(sourceId).catch(() => undefined);
    if (volume === undefined || volume.pool.name === name) return;
    throw new FailedPrecondition(
      `snapshot ${snapshotId} does not follow its volume to pool ${name}, as that is in pool ${volume.pool.name} by now: holdfast move ${sourceId} --to-pool ${volume.pool.name} --with-snapshots.`,
    );
  }

  /** Each copy takes memory: of many that were ordered at once some wait. Reads of another node have their turns. */
  async #turn(run: Run, held: Held): Promise<Disposable | undefined> {
    if (held.node !== undefined) return undefined;
    const { to } = run.job;
    const turns = this.#turns.at(to);
    // It can be used at neither end.
    const isUrgent = (await held.look())?.why === 'given';
    const { trouble } = run;
    if (turns.areTaken(isUrgent))
      run.trouble = `snapshots of other volumes are moving to pool ${to}: it waits for its turn.`;
    const turn = await turns.take(isUrgent, run.ending.signal);
    run.trouble = trouble;
    return turn;
  }

  #warnOfEnd({ id, node }: SnapshotsJob, error: unknown): void {
    this.#options.log.warn({ volume_id: id, node, err: error }, 'a node has not heard that snapshots have moved');
  }

  async #moveOne(run: Run, held: Held, to: Pool, newBytes: bigint): Promise<void> {
    const { log, objects } = this.#options;
    const { job, progress } = run;
    const { record } = held;
    const ending = new AbortController();
    const signal = AbortSignal.any([run.ending.signal, ending.signal]);
    Object.assign(progress, { current: record.name, doneBytes: 0n, totalBytes: 0n });
    const coming = { id: record.id, createdAt: record.createdAt, pool: held.pool };
    if (held.node !== undefined) await this.#noteComing(run, coming);
    const done = moveSnapshot({
      ...{ held, to, newBytes, objects, signal },
      pace: new BytesPerSecond(job.limitBytesPerSecond),
      begun: (totalBytes) => {
        progress.totalBytes = totalBytes;
      },
      moved: (bytes) => {
        progress.doneBytes += bytes;
      },
      whole: ({ fenceId, generation, moveId }) => {
        const whole = { moveId, fenceId, generation, record: serializeSnapshot(record) };
        return this.#noteComing(run, { ...coming, whole });
      },
    });
    run.current = { id: record.id, ending, done: done.catch(() => undefined) };
    try {
      await done;
    } finally {
      run.current = undefined;
      progress.current = undefined;
    }
    const { node, pool: from } = held;
    log.info({ volume_id: job.id, snapshot_id: record.id, node, from, to: to.name }, 'a snapshot has moved');
  }

  /**
   * Durable before anything of it is here: until its node has heard of its end, it is neither found nor deleted here, as it may be
   * there.
   */
  async #noteComing(run: Run, coming: ComingSnapshot): Promise<void> {
    const before = run.job.snapshots.coming;
    const isSame = before !== undefined && isOfSnapshot(before, coming);
    if (isSame && (coming.whole === undefined || coming.whole.fenceId === before.whole?.fenceId)) return;
    // The one before it may be lost where it was.
    const waiting = isSame ? run.job.snapshots.waiting : waitingIn(run.job);
    const job = { ...run.job, snapshots: { ...withWaiting(run.job.snapshots, waiting), coming } };
    await step(coming.whole === undefined ? 'move/note' : 'move/whole', () => this.#jobs.write(job));
    run.job = job;
  }

  /** Without the note a restart shows fewer that have moved, and asks for more room than is needed: neither is a harm. */
  async #note(run: Run, changes: Partial<SnapshotsOfJob>): Promise<void> {
    run.job = { ...run.job, snapshots: { ...run.job.snapshots, ...changes } };
    await this.#jobs.write(run.job).catch(() => undefined);
  }

  /**
   * It can be used where it is, and nothing of the copy is left.
   * @returns false while another node does not answer, which may have handed it over: the order must not end before that
   */
  async #giveUp(run: Run, held: Held, to: string): Promise<boolean> {
    const { id } = held.record;
    const target = this.#options.pools.get(to);
    try {
      if (held.node !== undefined) {
        await this.#undoFrom(held, run.job);
        await this.#resolveComing(run, this.#otherNode(run.job, run.ending.signal), target);
      } else if ((await held.look()) !== undefined) await this.#undo(held);
      // It was removed meanwhile.
      else if (movesOf(target).snapshots.find(id) === undefined) await movesOf(target).snapshots.discard(id);
    } catch (error) {
      if (held.node !== undefined && error instanceof Unavailable) return false;
      this.#options.log.warn({ snapshot_id: id, err: error }, 'the rest of the move of a snapshot is left');
    }
    return true;
  }

  /** The one that was coming when an earlier try ended: it was settled, taken back, or deleted where it comes from. */
  async #resolveComing(run: Run, from: OtherNode | undefined, to: Pool | undefined): Promise<void> {
    const { coming } = run.job.snapshots;
    // Without its pool nothing of it is seen: it is given up, with all that its node has taken back.
    if (from === undefined || coming === undefined || to === undefined) return;
    const { createdAt, id } = coming;
    const target = movesOf(to).snapshots;
    const { log, objects } = this.#options;
    // Its node may have taken it back, also if it has arrived here.
    // A cancel has ended the run by then, and waits for its turn, too.
    await outdateTakenBack({ from, to, log, objects, signal: AbortSignal.timeout(removedMs) }, coming);
    const there = await from.look(id, createdAt);
    if (there?.mark.fence !== undefined) return;
    await patiently({ objects, signal: AbortSignal.timeout(removedMs) }, [id], async () => {
      if ((await target.settled(id)) !== undefined) return;
      // All of it may have been handed over, and be lost there, or be there as it was before that.
      const readUnder = mayBeWhole(await target.notedOf(id)) ? (coming.whole?.fenceId ?? '') : undefined;
      const isLast = mayBeLast(readUnder, there) && !(await from.wasDeleted(id, createdAt));
      if (!isLast) await discardBeside([to], id, { verified: () => from.verified(id, createdAt) });
    });
    const waiting = await stillWaiting(this.#options.pools, waitingIn(run.job));
    await this.#note(run, { coming: undefined, waiting: waiting.length > 0 ? waiting : undefined });
  }

  /** Copies that wait go if the snapshot was deleted where it came from. */
  async #resolveWaiting({ job }: Run, from: OtherNode | undefined): Promise<void> {
    const { objects, pools } = this.#options;
    for (const each of job.snapshots.waiting ?? []) {
      const { createdAt, id, node, to } = each;
      if (from === undefined || node !== from.node || !pools.isOpen(to)) continue;
      if (!(await from.wasDeleted(id, createdAt))) continue;
      const signal = AbortSignal.timeout(removedMs);
      await patiently({ objects, signal }, [id], () => removeDeleted(pools.get(to), each));
    }
  }

  /**
   * One of another node, whose move is given up: it is the snapshot there, unless it is here already. Nothing of a copy is left here.
   * That none is committed here any more is durable before its node takes it back.
   * @returns false if it was deleted here before, and goes there, too
   */
  #undoFrom(held: Held, job: SnapshotsJob, isEvenSo = false): Promise<boolean> {
    const { objects, pools } = this.#options;
    const { id } = held.record;
    return patiently({ objects, signal: AbortSignal.timeout(undoneMs) }, [id], async () => {
      // Asked together: a pool that opens later was not looked at.
      const [open, closed] = [pools.all(), pools.closed()];
      const here = (await copiesOf(open, id)).find(({ state }) => isUsable(state));
      const state = await held.look();
      if (here !== undefined) {
        if (state === undefined || (await held.settle(await movesOf(here.pool).snapshots.verified(id)))) return true;
        throw new FailedPrecondition(
          `snapshot ${id} is in pool ${here.pool.name} and on node ${held.node}: look at both.`,
        );
      }
      if (state?.mark.fence === undefined) return true;
      if (state.why !== 'given') await held.open();
      else if (await this.#giveBack(held, state.mark, { job, isEvenSo, open, closed })) return false;
      // The last thing: until it is the snapshot there again, all that has come here may be all there is.
      await discardBeside(open, id, held);
      return true;
    });
  }

  /**
   * One that another node has handed over is the snapshot there again. The caller has claimed it.
   * @returns true if it goes there instead, as it was deleted here
   * @throws Unavailable, FailedPrecondition, DataLoss: why not
   */
  async #giveBack(held: Held, given: CopyMark, { closed, isEvenSo, job, open }: GivingBack): Promise<boolean> {
    const { pools } = this.#options;
    const { createdAt, id } = held.record;
    const { node = '' } = held;
    // A pool that is not open may have it.
    if (!isEvenSo) this.#requireLooked(closed[0]);
    const notes = anyMoves(pools).snapshots;
    if (await notes.wasDeleted(id, createdAt)) {
      // It had come, and its node has not heard of that.
      await held.settle((await notes.noted(id)).generation);
      return true;
    }
    const isGone = job.to !== '' && !pools.names().includes(job.to);
    const unseen = isGone ? [...closed, job.to] : closed;
    const hasAll = unseen.length === 0 || (await hasAllData(held));
    if (!hasAll && !isEvenSo) {
      throw new FailedPrecondition(
        `node ${node} has not all data of snapshot ${id}, which it has handed over, and pool ${unseen.join(', ')} of this node may have all of it: put that pool back. If it is lost, --even-so makes the copy on node ${node} the snapshot.`,
      );
    }
    await requireAllData(open, id, held);
    const word = await notes.disclaim(id, given, node);
    await held.takeBack(word);
    // The copy there is not committed any more, or is an earlier one: it goes when its pool is there.
    if (hasAll && unseen.length > 0) await this.#deleted.write({ id, createdAt, generation: word, pools: unseen });
    return false;
  }

  /**
   * Ends the rest of an order that sent them elsewhere: fenced copies in the pool that they go to now, and ones that were handed
   * over and have arrived in a third pool. Earlier copies go that have no fence, as a disk has come back as it was before.
   */
  async #resolve(to: Pool, id: VolumeId): Promise<void> {
    const open = this.#options.pools.all();
    for (const each of PoolHeld.all(open, id)) {
      // One whose mark cannot be read stays.
      const state = await each.look().catch(() => undefined);
      const isOld = state?.why === 'old' && state.mark.fence === undefined;
      if (!isOld && (state?.mark.fence === undefined || state.mark.fence.to !== undefined)) continue;
      const others = open.filter(({ name }) => name !== each.pool && (isOld || name !== to.name));
      const isElsewhere = (await copiesOf(others, each.record.id)).some((copy) => isUsable(copy.state));
      if (isElsewhere || (!isOld && each.pool === to.name)) await this.#undo(each);
    }
  }

  /** @param order the word of an operator: without it an earlier copy that no pool has more of stays as it is */
  #undo(held: Held, order?: { readonly lost: LostOrder | undefined }): Promise<void> {
    const { objects, pools } = this.#options;
    const { id } = held.record;
    return patiently({ objects, signal: AbortSignal.timeout(removedMs) }, [id], async () => {
      // Asked together: a pool that opens later was not looked at.
      const [open, [closed]] = [pools.all(), pools.closed()];
      const others = open.filter(({ name }) => name !== held.pool);
      const { mark, why } = (await held.look()) ?? {};
      const there = (await copiesOf(others, id)).find(({ state }) => isUsable(state));
      if (there === undefined && why === 'old' && order === undefined) return;
      if (there !== undefined && !(await held.settle(await movesOf(there.pool).snapshots.verified(id)))) {
        throw new FailedPrecondition(
          `snapshot ${id} is in pool ${there.pool.name} and in pool ${held.pool}: look at both.`,
        );
      }
      if (there === undefined && (why === 'given' || why === 'old')) {
        // A pool that is not open may have it.
        this.#requireLooked(closed);
        await requireAllData(others, id, held);
        requireInTime(id, order?.lost?.deadline);
        await held.takeBack(order?.lost);
      } else if (there === undefined && mark?.fence !== undefined) await held.open();
      // The last thing: a refusal leaves the bytes that have come.
      if (there === undefined) await discardBeside(others, id, held);
      else for (const { moves } of others) await moves?.snapshots.discard(id);
    });
  }

  async #endPatiently(
    run: Run,
    state: 'done' | 'failed',
    leftOnes: readonly LeftSnapshot[],
    reason?: string,
  ): Promise<void> {
    const { ending, job } = run;
    while (!ending.signal.aborted) {
      try {
        await this.#end(run.job, state, leftOnes, reason);
        return;
      } catch (error) {
        const trouble = `its end cannot be noted: ${error instanceof Error ? error.message : String(error)}`;
        if (run.trouble !== trouble) {
          this.#options.log.warn(
            { volume_id: job.id, err: error },
            'the end of a move of snapshots cannot be noted, and is tried again',
          );
        }
        run.trouble = trouble;
        await pause(noteRetryMs, ending.signal);
      }
    }
  }

  async #end(
    job: SnapshotsJob,
    state: 'cancelled' | 'done' | 'failed',
    leftOnes: readonly LeftSnapshot[],
    reason?: string,
  ): Promise<SnapshotsJob> {
    const { shares: _shares, ...counted } = job.snapshots;
    // One that may be the last copy can become the snapshot later, too.
    const snapshots = { ...withWaiting(counted, await this.#waiting(job)), left: leftOnes };
    const ended = { ...endedJob(job, state, reason), snapshots };
    await step('move/forget', () => this.#jobs.write(ended));
    this.#ended.set(job.id, ended);
    void this.#leftCopies.remove();
    return ended;
  }

  #leftOf({ id, to }: MoveJob, reason: string): LeftSnapshot[] {
    return this.#held(id, to).map((each) => left(each, each.whyStays ?? reason, each.whyStays !== undefined));
  }

  /** The snapshots of the volume in all other open pools, the newest first. */
  #held(id: VolumeId, to: string): Held[] {
    const others = this.#options.pools.all().filter(({ name }) => name !== to);
    return inOrder(PoolHeld.all(others, id));
  }

  /** @param closed a pool that was not open when the others were looked at @throws Unavailable, also if it has opened since */
  #requireLooked(closed: string | undefined): void {
    if (closed === undefined) return;
    this.#requireKnown(closed);
    throw new Unavailable(`pool ${closed} has opened just now, and was not looked at; try again.`);
  }

  /** @throws Unavailable while the pool is not open; one that is not in the configuration any more has nothing */
  #requireKnown(name: string): void {
    const { pools } = this.#options;
    if (pools.names().includes(name)) pools.get(name);
  }
}

/** With these copies that wait, the one on its way among them. */
function withWaiting(
  { coming: _coming, waiting: _waiting, ...snapshots }: SnapshotsOfJob,
  waiting: readonly WaitingSnapshot[] | undefined = [],
): SnapshotsOfJob {
  return waiting.length === 0 ? snapshots : { ...snapshots, waiting };
}

function whyGiven(id: VolumeId, node: string): string {
  return `it was handed over to node ${node}, which has not said that it is there. If node ${node} knows nothing of it: kubectl holdfast move cancel ${id}, with node ${node} as --node, makes this copy the snapshot again, or the same order goes on. If that node will never come back: --node-is-lost ${node}, with this node as --node.`;
}

/** The pools of an order. */
function poolsOf(job: SnapshotsJob | undefined): string[] {
  return job === undefined ? [] : [job.to, ...job.snapshots.pools];
}

/** Another one may have been taken under its name. */
function isNamed(names: readonly NamedSnapshot[], { createdAt, id }: SnapshotRecord): boolean {
  return names.some((each) => each.id === id && each.createdAt === createdAt);
}

/** Work for when a snapshot is gone. */
export type AfterRemoval = () => Promise<void>;

const nothingLeft: AfterRemoval = async () => undefined;

/** True if the snapshots of a volume move, and it does not. */
export function isOfSnapshots(job: MoveJob): job is SnapshotsJob {
  return job.snapshots !== undefined;
}

function left({ node, pool, record: { id, name } }: Held, reason: string, stays: boolean): LeftSnapshot {
  return { id, name, pool, ...(node !== undefined && { node }), reason, stays };
}

interface GivingBack extends Looked {
  readonly job: SnapshotsJob;
  readonly isEvenSo: boolean;
}

/** True if a pool is not open, or the snapshot was handed over: only its end makes it available again. */
async function isForLater(held: Held, error: unknown): Promise<boolean> {
  if (error instanceof Unavailable) return true;
  // No pool has it: it is taken back.
  if (error instanceof SnapshotArrivedAndGone || error instanceof NotHandedOver) return false;
  // One whose mark cannot be read stays, and keeps none of the others.
  const state = await held.look().catch((again: unknown) => (again instanceof Unavailable ? 'later' : undefined));
  return state === 'later' || state?.why === 'given';
}

interface Copy {
  readonly pool: Pool;
  readonly record: SnapshotRecord;
  readonly state: CopyState;
}

/** The pools that were looked at, and those that were not. */
interface Looked {
  readonly open: readonly Pool[];
  readonly closed: readonly string[];
}

async function copiesOf(pools: readonly Pool[], id: SnapshotId): Promise<Copy[]> {
  const copies: Copy[] = [];
  for (const pool of pools) {
    const record = await pool.moves?.snapshots.settled(id);
    if (record !== undefined) copies.push({ pool, record, state: await movesOf(pool).snapshots.stateOf(id) });
  }
  return copies;
}

/** A snapshot can be used while it is fenced. */
function isUsable({ why }: CopyState): boolean {
  return why === undefined || why === 'closed';
}

/** Without those whose mark cannot be read. */
async function fencedIn(pools: readonly Pool[], id: VolumeId): Promise<PoolHeld[]> {
  const seen = await seenIn(pools, id);
  return seen.filter(({ state }) => state.mark.fence !== undefined).map(({ held }) => held);
}

/**
 * The copies that a cancel ends, the later ones first: all with a fence, and those that are earlier ones, as their disk is as it was
 * before, unless another node may have the snapshot that is not lost.
 */
async function unsettledIn(pools: readonly Pool[], id: VolumeId, lost: LostOrder | undefined): Promise<PoolHeld[]> {
  const unsettled: Seen[] = [];
  for (const seen of await seenIn(pools, id)) {
    const { mark, why } = seen.state;
    const elsewhere = why === 'old' ? await seen.held.whereElse(mark) : undefined;
    const isOld = why === 'old' && (elsewhere === undefined || elsewhere === lost?.lostNode);
    if (mark.fence !== undefined || isOld) unsettled.push(seen);
  }
  return unsettled.sort((a, b) => b.state.mark.generation - a.state.mark.generation).map(({ held }) => held);
}

interface Seen {
  readonly held: PoolHeld;
  readonly state: CopyState;
}

async function seenIn(pools: readonly Pool[], id: VolumeId): Promise<Seen[]> {
  const seen: Seen[] = [];
  for (const held of PoolHeld.all(pools, id)) {
    const state = await held.look().catch(() => undefined);
    if (state !== undefined) seen.push({ held, state });
  }
  return seen;
}

/** The names of the pools whose disks do not answer: they must hold back no deletion of a snapshot that they have not. */
async function silentOnes(pools: readonly Pool[]): Promise<string[]> {
  const looked = await Promise.all(
    pools.map(async ({ moves, name }) => {
      const arriving = Promise.resolve(moves?.snapshots.arriving());
      return (await withTimeout(silentAfterMs, arriving)) === 'late' ? [name] : [];
    }),
  );
  return looked.flat();
}
