import { randomUUID } from 'node:crypto';
import type { DiskQueue } from '../kernel/call/disk-queue.ts';
import type { PoolLog } from '../pool/log.ts';
import { type CopyState, type LaterCopy, VolumeWentOn } from '../pool/moves.ts';
import type { Pool } from '../pool/pool.ts';
import type { Pools } from '../pool/pools.ts';
import { Aborted, FailedPrecondition, NotFound, Unavailable } from '../volume/errors.ts';
import type { ObjectQueue } from '../volume/flow/object-queue.ts';
import { pause } from '../volume/flow/pause.ts';
import { withTimeout } from '../volume/flow/with-timeout.ts';
import type { SnapshotId, VolumeId } from '../volume/id.ts';
import { type CopyMark, isEarlier, isVolume } from '../volume/move/rule.ts';
import { step } from '../volume/step.ts';
import { Copies, copiesIn, hasArrived, hasVolume, latestOf, poolsWith, requireOpen, statesIn } from './copies.ts';
import { finishCopy } from './finish.ts';
import { type Deadline, deadlineWithin, type LostOrder, type LostPool } from './in-time.ts';
import {
  defaultFenceTimeoutMs,
  endedJob,
  forgettable,
  hasWaiting,
  isLongPast,
  type MoveJob,
  MoveJobs,
  noSnapshots,
  turnOf,
  type WholeCopy,
} from './job.ts';
import { LeftVolumes } from './left-volumes.ts';
import { ArrivedAndGone, type MoveProgress, Moving } from './moving.ts';
import { BytesPerSecond } from './pace.ts';
import { type PeerMove, type PeerOrder, type Peers, planMs, requirePeers, snapshotsAt } from './peers.ts';
import { type MovePlan, Planner } from './planner.ts';
import { Rests, readUnderIn } from './rests.ts';
import { Sickness } from './sickness.ts';
import { type AfterRemoval, SnapshotMover, type SnapshotsSight } from './snapshots/snapshot-mover.ts';
import { MoveEnded, MoveForgotten, movesOf, NotConnected, patiently, type SourceSight } from './source.ts';
import { switched } from './switched.ts';
import { Reached } from './tree/progress.ts';
import type { QueuedSource } from './turns/queued-source.ts';
import { arrived, type Cancelling, notCancelled, Undo } from './undo.ts';

export interface MoverOptions {
  readonly pools: Pools;
  readonly objects: ObjectQueue;
  /** The driver's own directory, HOLDFAST_DATA. */
  readonly dataDirectory: string;
  /** For the files of the driver's own directory. */
  readonly queue: DiskQueue;
  readonly log: PoolLog;
  /** The time for which a volume stays fenced whose target does not answer. */
  readonly fenceTimeoutMs?: number;
  /** The smallest distance between two rounds of a volume that stays in use. */
  readonly keepUpMs?: number;
  /** Snapshots may follow a volume. Experimental, and off by default. */
  readonly movesSnapshots?: boolean | undefined;
  /** The distance between two looks for moves whose end is reported no more. */
  readonly forgetEveryMs?: number | undefined;
  /** The other nodes; undefined: volumes move between pools of this one only. */
  readonly peers?: Peers | undefined;
  /** True if a pod of this node may use the volume, also one of a pool that is not there any more. */
  readonly isStaged?: ((id: VolumeId) => Promise<boolean>) | undefined;
}

/** A move, and how far it has come; undefined: it does not run. */
export interface MoveSight {
  readonly job: MoveJob;
  readonly progress: MoveProgress | undefined;
  /** The reason why it waits to be tried again. */
  readonly trouble: string | undefined;
  /** It waits for the controller to connect this node with the other one. */
  readonly isUnconnected: boolean;
  /** The snapshots that follow, or have followed, the volume. */
  readonly snapshots?: SnapshotsSight | undefined;
}

export interface StartedMove {
  readonly plan: MovePlan;
  readonly sight: MoveSight;
}

interface Order {
  readonly id: VolumeId;
  readonly to: string;
  readonly limitBytesPerSecond: bigint | undefined;
  /** Its snapshots follow it. If the volume is there already, those that are not. */
  readonly withSnapshots: boolean;
}

/** A move that was given up. */
export interface CancelledMove extends MoveJob {
  /** It has never become the volume at its target, on no disk. */
  readonly isUncommitted?: true | undefined;
  /** The copy that had come was removed, or the volume was leaving this node, and its source has not shown that it has the volume. */
  readonly isUnseen?: true | undefined;
}

interface Run {
  job: MoveJob;
  readonly progress: MoveProgress;
  readonly ending: AbortController;
  /** Set while it is asked. */
  source?: QueuedSource | undefined;
  trouble?: string | undefined;
  isUnconnected: boolean;
  /** Ends the pause before the next try. */
  wake: AbortController;
  done: Promise<void>;
}

/** Well below the time that the kubelet gives a call. */
const arrivalMs = 8_000;

/** The pause before a move is tried again that must not be given up: its source has handed the volume over. */
const retryMs = 10_000;

/** The pause before the note of the end of a move is written again. */
const noteRetryMs = 1_000;

const forgetEveryMs = 600_000;

/** The time for which a deletion waits until the moves are known that an earlier driver has left. */
const readyMs = 5_000;

/** The time within which a move is given up, or stays. The controller waits a little longer for the answer. */
const cancelMs = 20_000;

/** More than that, for the words about the answer that has not come. */
const wordsMs = 1_000;

/** The time for which the deletion of a volume waits for the end of its move. */
const deletedMs = 10_000;

/** The end of a run that is not the end of its move. */
const stopped = 'the driver is stopping';

/** Moves of volumes between the pools of this node: each runs in the background, and the next start resumes it. */
export class Mover {
  readonly #options: MoverOptions;
  readonly #jobs: MoveJobs;
  readonly #snapshots: SnapshotMover;
  readonly #planner: Planner;
  readonly #rests: Rests;
  readonly #undo: Undo;
  /** The copies of volumes on this node. */
  readonly copies: Copies;
  readonly #leftVolumes: LeftVolumes;
  readonly #runs = new Map<VolumeId, Run>();
  /** Moves that have ended, one for each volume. */
  readonly #ended = new Map<VolumeId, MoveJob>();
  /** Volumes whose fence may stand after their move, or may have ended without a note of that in it. */
  readonly #unsure = new Set<VolumeId>();
  /** Moves that an earlier driver has left, which go on once the pools are open. */
  readonly #left = new Map<VolumeId, MoveJob>();
  readonly #stopping = new AbortController();
  /** Moves that are being given up. */
  readonly #cancelling = new Map<VolumeId, Cancelling>();
  #forgetting: Promise<void> | undefined;
  #learning: Promise<void> | undefined;
  /** The moves that an earlier driver has left are known. */
  #isKnown = false;
  /** They go on, and the pools are open. */
  #isReady = false;

  constructor(options: MoverOptions) {
    this.#options = options;
    this.#jobs = new MoveJobs(options.dataDirectory, options.queue);
    this.#snapshots = new SnapshotMover(options);
    this.#rests = new Rests(options);
    const running = (id: VolumeId) => this.#runs.get(id)?.job;
    this.#planner = new Planner({ ...options, snapshots: this.#snapshots, running });
    this.copies = new Copies({
      ...options,
      lastJobOf: (id) => this.#runningJob(id) ?? this.#ended.get(id),
      endMove: (id, by) => this.#endOutdated(id, by),
      requireReady: () => this.#requireReady(),
    });
    const endedJob = (id: VolumeId) => this.#ended.get(id);
    this.#undo = new Undo({ ...options, copies: this.copies, rests: this.#rests, endedJob });
    const jobOf = (id: VolumeId) => {
      const running = this.#runs.get(id)?.job ?? this.#left.get(id);
      const job = running ?? this.#ended.get(id);
      return job && { job, isRunning: running !== undefined };
    };
    this.#leftVolumes = new LeftVolumes({ ...options, retryMs, jobOf });
  }

  /** Reads the notes of the moves that a driver before this one has left. A pool that is not open must not keep that back. */
  learn(): Promise<void> {
    this.#learning ??= this.#learn();
    return this.#learning;
  }

  async #learn(): Promise<void> {
    await this.#snapshots.learn();
    const { jobs, problems } = await this.#jobs.read();
    for (const error of problems) this.#options.log.error({ err: error }, 'the note of a move cannot be read');
    for (const job of jobs) (job.state === 'running' ? this.#left : this.#ended).set(job.id, job);
    this.#isKnown = true;
  }

  /** Takes up the moves that a driver before this one has left. The pools are open. */
  async resume(): Promise<void> {
    const { log } = this.#options;
    await this.#snapshots.resume();
    await this.learn();
    for (const job of [...this.#left.values(), ...this.#ended.values()]) {
      if (this.#isStopping || this.#runs.has(job.id)) continue;
      if (job.state === 'running') {
        // Unless its volume was deleted meanwhile.
        if (!this.#left.has(job.id)) continue;
        log.info({ volume_id: job.id, from: job.from, to: job.to }, 'resuming the move of a volume');
        this.#begin(job);
      } else if (job.state === 'failed') {
        this.#ended.set(job.id, await this.#open(job));
        await this.#rests.removeOfDeleted(job);
      } else if (job.state === 'cancelled' && !(await this.#rests.removeAtSource(job))) this.#unsure.add(job.id);
    }
    await this.#forgetEnded();
    this.#isReady = true;
    if (this.#isStopping) return;
    void this.#leftVolumes.remove();
    this.#forgetting ??= this.#keepForgetting();
  }

  get #isStopping(): boolean {
    return this.#stopping.signal.aborted;
  }

  async #keepForgetting(): Promise<void> {
    const { signal } = this.#stopping;
    for (;;) {
      await pause(this.#options.forgetEveryMs ?? forgetEveryMs, signal);
      if (signal.aborted) return;
      await this.#openUnsure();
      await this.#forgetEnded();
    }
  }

  /** Forgets moves whose end is reported no more, and which have left nothing. Never rejects. */
  async #forgetEnded(): Promise<void> {
    const { log, objects } = this.#options;
    await this.#snapshots.forgetEnded();
    for (const job of forgettable(this.#ended.values())) {
      const { id } = job;
      // By its note the fence ends once that pool is there, however late.
      if (this.#unsure.has(id)) continue;
      const mayHaveLeft = await this.#rests.mayBeLeft(job);
      if (mayHaveLeft === undefined) continue;
      const claims = [{ object: turnOf(id) }, { object: id }];
      await objects
        .claim(claims, 'the end of a move', async () => {
          // It may have been ordered again.
          if (this.#isStopping || this.#ended.get(id) !== job) return;
          if (mayHaveLeft && !(await this.#rests.removeIfNeedless(job))) return;
          await this.#jobs.forget(id);
          this.#ended.delete(id);
        })
        .catch((error) => {
          // Others have its volume: next time.
          if (!(error instanceof Aborted))
            log.warn({ volume_id: id, err: error }, 'the end of a move cannot be forgotten');
        });
    }
  }

  /** @throws Unavailable while the driver starts */
  sights(): MoveSight[] {
    this.#requireReady();
    const running = Array.from(this.#runs.values(), (run) => {
      const { isUnconnected, job, progress, source, trouble } = run;
      return { job, progress, trouble: source?.isQueued === true ? waitsForTurn(source) : trouble, isUnconnected };
    });
    const ended = [...this.#ended.values()].filter(({ id }) => !this.#runs.has(id));
    const leaving = this.#options.peers?.leaving() ?? [];
    const shown = [...ended, ...leaving].filter((job) => job.state !== 'cancelled' || !isLongPast(job));
    const sights: MoveSight[] = [...running, ...shown.map(sightWithout)];
    const following = this.#snapshots.sights();
    const alone = following.filter((each) => sights.every((sight) => !isAfter(each, sight)) && isWorth(each, sights));
    const given = this.#snapshots.handedOver();
    const withTheirs = sights.map((sight) => {
      const snapshots = following.find((each) => isAfter(each, sight)) ?? given.find((each) => isWith(each, sight));
      return { ...sight, snapshots };
    });
    const unseen = given.filter((each) => withTheirs.every(({ snapshots }) => snapshots !== each));
    return [
      ...withTheirs,
      ...alone.map((snapshots) => ({ ...sightWithout(endedOf(snapshots)), snapshots })),
      // The volume itself has moved before.
      ...unseen.map((snapshots) => ({ ...sightWithout({ ...endedOf(snapshots), state: 'done' }), snapshots })),
    ];
  }

  /** @throws NotFound, FailedPrecondition, InvalidArgument: why it cannot move there; nothing is changed */
  plan(id: VolumeId, to: string, withSnapshots = false): Promise<MovePlan> {
    return this.#planner.plan(id, to, withSnapshots);
  }

  /** Plans a move from another node. Nothing is changed. */
  async planFrom(order: Omit<PeerOrder, 'limitBytesPerSecond' | 'ticket'>): Promise<MovePlan> {
    this.#requireReady();
    return await this.#planner.planFrom(order);
  }

  /** Starts a move from another node, or resumes it. */
  startFrom(order: PeerOrder): Promise<StartedMove> {
    const { id, moveId } = order;
    return this.#options.objects.run(turnOf(id), 'the start of a move', moveId, async () => {
      const { limitBytesPerSecond, node, ticket, withSnapshots } = order;
      const { peers, pools } = this.#options;
      const plan = await this.planFrom(order);
      // The snapshots may be taken from there, also after a restart of either.
      if (withSnapshots === true) await snapshotsAt(peers, order).begin();
      if (withSnapshots === true && (await pools.find(id)) !== undefined) {
        const startedAt = new Date().toISOString();
        const rest = { ...{ moveId, id, from: plan.from, to: plan.to, node, ticket, startedAt }, limitBytesPerSecond };
        const snapshots = await this.#snapshots.launch({ ...rest, state: 'running' });
        return { plan, sight: { ...sightWithout(endedOf(snapshots)), snapshots } };
      }
      // Its source notes that it has begun, so that the move goes on after a restart of either of them.
      const sight = await requirePeers(peers).source({ id, moveId, node }, AbortSignal.timeout(planMs)).look();
      const before = this.#ended.get(id);
      const isSame = before?.state === 'failed' && before.moveId === moveId && before.to === plan.to;
      if (before?.state === 'failed' && !isSame) await this.#replace(before, order, sight);
      const from = { id, from: plan.from, to: plan.to, node, ticket, startedAt: new Date().toISOString() };
      const limit = limitBytesPerSecond === undefined ? {} : { limitBytesPerSecond };
      // The copy that has come is the same one.
      const whole = isSame ? { whole: before.whole } : {};
      const following = withSnapshots === true ? { withSnapshots } : {};
      return this.#launch(plan, { moveId, ...from, ...limit, ...whole, ...following, state: 'running' });
    });
  }

  /** Removes what a failed move has left, before another order takes its place. @throws FailedPrecondition if it may be the last copy */
  async #replace(before: MoveJob, { moveId, node }: PeerMove, sight: SourceSight | undefined): Promise<void> {
    if (before.moveId === moveId && sight?.state.why === 'given') throw handedOverTo(before);
    await this.#undo.requireNotLast(before, before.node === node ? sight?.state : undefined, { moveId });
    if (before.moveId === moveId) await this.#rests.discardHere(before);
    else await this.#rests.discard(before);
  }

  /** Waits some seconds for a volume that is about to come: a caller that was refused asks again only seconds later. */
  async arrival(id: VolumeId): Promise<void> {
    const run = this.#runs.get(id);
    const isComing = run !== undefined && (run.job.node !== undefined || run.progress.phase === 'switching');
    // Its fence may have ended as its target is silent, or its source has not heard yet that it has arrived.
    if (!isComing || (await this.#isUsable(id))) return;
    await withTimeout(arrivalMs, Promise.allSettled([run.done]));
  }

  /** True if a pool has a copy that is the volume. Never throws. */
  async #isUsable(id: VolumeId): Promise<boolean> {
    try {
      const copies = await copiesIn(this.#options.pools, id);
      return copies.some(({ state }) => state.why === undefined);
    } catch {
      return false;
    }
  }

  /** True if the volume is moving into a pool of this node. @throws Unavailable while that is not known */
  isMoving(id: VolumeId): boolean {
    return this.#runningJob(id) !== undefined;
  }

  #runningJob(id: VolumeId): MoveJob | undefined {
    if (!this.#isKnown) throw starting();
    return this.#runs.get(id)?.job ?? this.#left.get(id);
  }

  /**
   * The move by which all of a copy has come to this node that is not the volume yet, and can become it (`finish`); undefined: there is none.
   * @throws Unavailable while the driver starts
   */
  async wholeMove(id: VolumeId): Promise<MoveJob | undefined> {
    this.#requireReady();
    const job = this.#runs.get(id)?.job ?? this.#ended.get(id);
    if (job?.whole === undefined || job.state === 'done' || job.state === 'cancelled') return undefined;
    const { pools } = this.#options;
    // On an empty disk, nothing waits any more.
    const isGone = pools.isOpen(job.to) && (await readUnderIn(movesOf(pools.get(job.to)), id)) === undefined;
    return isGone ? undefined : job;
  }

  /** The controller has connected this node with that one: moves that wait for it are tried again. */
  connected(node: string): void {
    for (const { isUnconnected, job, wake } of this.#runs.values()) {
      if (isUnconnected && job.node === node) wake.abort();
    }
    this.#snapshots.connected(node);
  }

  /** True if snapshots of the volume come to this node from another one. @throws Unavailable while that is not known */
  areSnapshotsComing(id: VolumeId): boolean {
    return this.#snapshots.comingOf(id) !== undefined;
  }

  /** Starts a move, or resumes one that failed. It runs on behind the answer. */
  start(
    id: VolumeId,
    to: string,
    limitBytesPerSecond: bigint | undefined,
    withSnapshots = false,
  ): Promise<StartedMove> {
    const fingerprint = `${to} ${limitBytesPerSecond} ${withSnapshots}`;
    return this.#options.objects.run(turnOf(id), 'the start of a move', fingerprint, () =>
      this.#start({ id, to, limitBytesPerSecond, withSnapshots }),
    );
  }

  async #start({ id, limitBytesPerSecond, to, withSnapshots }: Order): Promise<StartedMove> {
    this.#requireReady();
    const plan = await this.plan(id, to, withSnapshots);
    const isThere = plan.from === plan.to;
    const before = this.#ended.get(id);
    const canResume =
      before?.state === 'failed' && before.node === undefined && before.from === plan.from && before.to === to;
    const job: MoveJob = {
      moveId: canResume ? before.moveId : randomUUID(),
      ...{ id, from: plan.from, to, startedAt: new Date().toISOString(), state: 'running' },
      ...(limitBytesPerSecond !== undefined && { limitBytesPerSecond }),
      ...(withSnapshots && { withSnapshots }),
      ...(canResume && { whole: before.whole }),
    };
    if (isThere) {
      const snapshots = await this.#snapshots.launch(job);
      return { plan, sight: { ...sightWithout(endedOf(snapshots)), snapshots } };
    }
    if (before?.state === 'failed' && !canResume) {
      const isSame = before.node === undefined && before.from === plan.from;
      await this.#undo.requireNotLast(
        before,
        isSame ? await movesOf(this.#options.pools.get(plan.from)).stateOf(id) : undefined,
      );
      await this.#rests.discard(before);
    }
    return this.#launch(plan, job);
  }

  async #launch(plan: MovePlan, job: MoveJob): Promise<StartedMove> {
    if (this.#isStopping) throw new Unavailable('the driver is stopping; try again.');
    await step('move/note', () => this.#jobs.write(job));
    const { progress } = this.#begin(job);
    return { plan, sight: { ...sightWithout(job), progress } };
  }

  /**
   * Gives a move up: the volume is where it was, and nothing of the copy is left. The same order again goes on where this one is.
   * @param lost the node of the move that is lost
   * @param until its caller waits no longer
   * @param isEvenSo also a copy that has come and may be the last one is removed, and an earlier one becomes the volume
   * @throws NotFound, FailedPrecondition once it has arrived, Unavailable if a pool or a node has not answered: says how far it has come
   */
  async cancel(id: VolumeId, lost?: LostOrder, until?: Deadline, isEvenSo = false): Promise<CancelledMove> {
    const deadline = deadlineWithin(cancelMs, until ?? lost?.deadline);
    const waitsFor = 'the copy has not stopped yet, and nothing has changed';
    const order: Cancelling = { lost, deadline, isEvenSo, waitsFor };
    const work = this.#options.objects.run(
      turnOf(id),
      'the end of a move',
      `${lost?.lostNode} ${lost?.isComing} ${isEvenSo}`,
      async () => {
        this.#cancelling.set(id, order);
        const job = await this.#cancel(id, order).finally(() => this.#cancelling.delete(id));
        const { isUncommitted, isUnseen } = order;
        return { ...job, ...(isUncommitted && { isUncommitted }), ...(isUnseen && { isUnseen }) };
      },
    );
    const ended = await withTimeout(deadline.endMs - performance.now() + wordsMs, work);
    if (ended !== 'late') return ended;
    throw notCancelled(id, this.#cancelling.get(id) ?? order)();
  }

  /**
   * Before another node gives its copies up, so that one which is left here becomes the volume by `cancel`. Nothing is changed.
   * @throws what that would throw
   */
  async requireCancellable(id: VolumeId, lost: LostOrder, isEvenSo = false): Promise<MoveJob> {
    this.#requireReady();
    const job = await this.#unendedFor(id, lost);
    // With that node lost, the move ends whatever that says.
    if (job?.node === lost.lostNode) return job;
    const { deadline = deadlineWithin(cancelMs) } = lost;
    return this.#undo.free(id, { deadline, isEvenSo, lost, isTrial: true });
  }

  /**
   * The move that an order to cancel ends. One that has failed is not meant by the word that another node is lost, once the volume was handed
   * over: that is about the copy which was left then.
   * @returns undefined: there is none
   */
  async #unendedFor(id: VolumeId, lost: LostOrder | undefined): Promise<MoveJob | undefined> {
    const job = this.#runs.get(id)?.job ?? this.#ended.get(id);
    if (job === undefined || job.state === 'done' || job.state === 'cancelled') return undefined;
    if (lost === undefined || lost.lostNode === job.node || job.state === 'running') return job;
    const copies = await copiesIn(this.#options.pools, id);
    const left = copies.some(({ state }) => isVolume(state)) ? undefined : latestOf(copies);
    const isLeft = left !== undefined && (await movesOf(left.pool).whereElse(id)) !== undefined;
    return isLeft ? undefined : job;
  }

  /**
   * Gives up the snapshots of a volume that another node has handed over to this one, which may know nothing of that: they are where they were.
   * @throws NotFound if there is none
   */
  cancelSnapshotsFrom(move: PeerMove, isEvenSo: boolean): Promise<MoveJob> {
    const { id, moveId, node } = move;
    return this.#options.objects.run(turnOf(id), 'the end of a move', moveId, async () => {
      this.#requireReady();
      if (!this.#snapshots.isComingFrom(id, node)) {
        await snapshotsAt(this.#options.peers, move).begin();
        const startedAt = new Date().toISOString();
        const { to = '' } = this.#snapshots.unendedFrom(id) ?? {};
        const rest = { ...move, from: '', to, startedAt, state: 'running', snapshots: noSnapshots } as const;
        const ended = await this.#snapshots.cancelRest(rest, isEvenSo);
        if (ended !== undefined) return ended;
      }
      const running = await this.#snapshots.cancel(id, undefined, isEvenSo);
      if (running !== undefined) return running;
      throw new NotFound(`node ${node} has handed no snapshot of volume ${id} over to this node.`);
    });
  }

  async #cancel(id: VolumeId, order: Cancelling): Promise<MoveJob> {
    const { lost } = order;
    this.#requireReady();
    if (lost?.isComing === true) {
      const coming = this.#runs.get(id)?.job ?? this.#ended.get(id);
      if (coming?.node !== lost.lostNode) throw notComing(id, lost);
      // The same order again.
      if (coming.state === 'done' || coming.state === 'cancelled') return coming;
    }
    const job = await this.#unendedFor(id, lost);
    if (job === undefined) {
      const { waitsFor } = order;
      order.waitsFor = 'not all of its snapshots are where they were';
      const snapshots = await this.#snapshots.cancel(id, lost, order.isEvenSo);
      if (snapshots !== undefined && !(await this.#hasOld(id))) return snapshots;
      order.waitsFor = waitsFor;
      try {
        return await this.#cancelLeaving(id, order);
      } catch (error) {
        // Its snapshots are where they were. The same command again says what the volume needs.
        const isRefused = error instanceof FailedPrecondition || error instanceof NotFound;
        if (snapshots !== undefined && isRefused) return snapshots;
        const ended = lost === undefined && error instanceof NotFound ? this.#snapshots.unendedFrom(id) : undefined;
        const rest = ended && (await this.#snapshots.cancelRest(ended, order.isEvenSo));
        if (rest !== undefined) return rest;
        throw error;
      }
    }
    const isNodeLost = lost !== undefined && lost.lostNode === job.node;
    return this.#endByHand(job, 'the move was cancelled.', async () => {
      const isKnown = job.node !== undefined || !this.#rests.isSourceKnown(job);
      const isHere = isKnown && (await hasVolume(this.#options.pools, id));
      if (isHere && job.node !== undefined) {
        // It is here, and its source has not heard of it: the copy there can be used no more.
        const { pools } = this.#options;
        const target = pools.names().includes(job.to) ? pools.get(job.to) : undefined;
        const hasCome = target !== undefined && (await hasArrived(target, id));
        if (!hasCome && order.isEvenSo) {
          // It is in another pool: by that word, the copy that has come, of an earlier or later state, is not needed.
          await this.#rests.discardHere(job);
          return await this.#end(job, 'cancelled', undefined);
        }
        // By that word, too: its source may have lost its pool, and never hear of it.
        if (isNodeLost || order.isEvenSo) return await this.#end(job, 'done', undefined);
        throw hasCome ? arrived(job) : isElsewhere(job, (await pools.find(id))?.pool.name);
      }
      // It is here, and nothing can hear of that any more.
      if (isHere) return await this.#end(job, 'done', undefined);
      await (job.node === undefined
        ? this.#undo.withinNode(job, order)
        : this.#undo.fromNode(job, job.node, { order, isNodeLost }));
      return await this.#end(job, 'cancelled', undefined);
    });
  }

  /**
   * Ends a move that runs, or has failed, by the word of an operator. One that cannot be ended in this way goes on, and so does each after a
   * trial.
   */
  async #endByHand(
    job: MoveJob,
    why: string,
    work: (job: MoveJob) => Promise<MoveJob>,
    isTrial = false,
  ): Promise<MoveJob> {
    const { id, moveId } = job;
    const run = this.#runs.get(id);
    run?.ending.abort(new Aborted(why));
    await run?.done;
    const last = this.#ended.get(id);
    // It came to its end just now.
    if (run !== undefined && last?.moveId === moveId && last.state === 'done') throw arrived(job);
    const goOn = () => {
      if (!this.#runs.has(id)) this.#begin(run?.job ?? job);
    };
    try {
      const ended = await work(run?.job ?? job);
      if (isTrial && run !== undefined) goOn();
      return ended;
    } catch (error) {
      // Its source hears that the volume has gone on.
      if (run !== undefined || error instanceof VolumeWentOn) goOn();
      throw error;
    }
  }

  /**
   * Makes the copy of a volume that is moving here the volume: the node, or the pool of this node, that it leaves is lost, as an
   * operator says.
   * @param isEvenSo although the volume could be used, and changed, since that copy was made
   * @param isTrial only what can refuse it is asked: the move goes on, or is as it was
   * @throws NotFound, FailedPrecondition, Unavailable: why not; the move goes on, or is as it was
   */
  finish(id: VolumeId, lost: LostOrder | LostPool, isEvenSo = false, isTrial = false): Promise<MoveJob> {
    const { objects } = this.#options;
    const named = 'lostPool' in lost ? `pool ${lost.lostPool}` : `node ${lost.lostNode}`;
    return objects.run(turnOf(id), 'the end of a move', `${named} is lost ${isEvenSo} ${isTrial}`, () =>
      this.#finish(id, lost, { isEvenSo, isTrial, named }),
    );
  }

  async #finish(
    id: VolumeId,
    lost: LostOrder | LostPool,
    { isEvenSo, isTrial, named }: { readonly isEvenSo: boolean; readonly isTrial: boolean; readonly named: string },
  ): Promise<MoveJob> {
    const { objects, pools } = this.#options;
    this.#requireReady();
    const found = this.#runs.get(id)?.job ?? this.#ended.get(id);
    const [node, pool] = 'lostPool' in lost ? [undefined, lost.lostPool] : [lost.lostNode, found?.from];
    const hasEnded = found === undefined || found.state === 'done' || found.state === 'cancelled';
    const isMeant = found?.node === node && found?.from === pool;
    // An order before this one may have brought some of its snapshots, too.
    const snapshots = !isTrial && (hasEnded || !isMeant) ? await this.#snapshots.finish(id, lost) : undefined;
    if (snapshots !== undefined) return snapshots;
    if (hasEnded) {
      throw new NotFound(
        `volume ${id} is not moving to this node, nor is a snapshot of it that has come as a whole: see holdfast move status.`,
      );
    }
    if (!isMeant) {
      const from = found.node === undefined ? `pool ${found.from}` : `node ${found.node}`;
      throw new FailedPrecondition(`volume ${id} is moving here from ${from}, and not from ${named}.`);
    }
    const finish = async (job: MoveJob) => {
      await objects.claim([{ object: id }], 'the end of a move', async () => {
        // A driver that was killed after the commit has it already.
        if (await hasArrived(pools.get(job.to), id)) return;
        await this.copies.requireNotStaged(id);
        await finishCopy(pools, job, { lost: 'lostPool' in lost ? undefined : lost, isEvenSo, isTrial });
      });
      if (isTrial) return job;
      switched.publish({ volumeId: id });
      // Its snapshots are lost with their pool.
      return this.#end({ ...job, withSnapshots: undefined }, 'done', undefined, true);
    };
    return this.#endByHand(found, 'an operator finishes the move.', finish, isTrial);
  }

  /** The same at the source of a move to another node, or of one that this node knows nothing of. */
  async #cancelLeaving(id: VolumeId, order: Cancelling): Promise<MoveJob> {
    const { peers } = this.#options;
    const left = order.lost === undefined ? await peers?.cancelLeaving(id, order.isEvenSo) : undefined;
    if (left !== undefined) {
      const { isUnseen, ...ended } = left;
      if (isUnseen === true) order.isUnseen = true;
      return ended;
    }
    const freed = await this.#undo.free(id, order);
    void this.#leftVolumes.remove();
    return freed;
  }

  /**
   * The copies that a volume has left go to the trash before the volume is deleted: none of them must be the last one, which would be
   * the volume then. The caller has claimed the volume.
   * @throws Unavailable while the pool is not open that has one, or if one stays
   */
  async settleLeft(id: VolumeId): Promise<void> {
    const found = await poolsWith(this.#options.pools, id);
    this.#requireLeftOpen(id, found);
    // Nearly every volume is in one pool, and no mark has to be read.
    if (found.length < 2) return;
    const copies = await statesIn(found, id);
    const valid = copies.find(({ state }) => state.why === undefined);
    if (valid === undefined) return;
    const { generation } = valid.state.mark;
    for (const { pool, state } of copies) {
      if (pool === valid.pool) continue;
      const moveId = state.mark.fence?.moveId ?? '';
      if (await movesOf(pool).settle(id, { moveId, generation })) continue;
      throw new Unavailable(
        `volume ${id} is in pool ${valid.pool.name}, and pool ${pool.name} has a copy of it that is no earlier one, as a disk may have that was in another node: it would be the volume once the one in pool ${valid.pool.name} is deleted. Stop the driver, move the copy out of pool ${pool.name}, and start the driver: then the volume can be deleted.`,
      );
    }
  }

  /**
   * A pool is back that was away when the volume was deleted where it had moved to: the copy that was left there goes to the trash, like each
   * such copy, as it is deleted again. One that may be needed stays: a move goes on, or another node, or a pool, may have the volume. The caller
   * has claimed it, and no pool has it to be deleted.
   * @returns true if all have gone there
   */
  async settleDeleted(id: VolumeId): Promise<boolean> {
    const { pools } = this.#options;
    const copies = await copiesIn(pools, id);
    if (copies.length === 0) return false;
    const { state: lastState = 'done' } = this.#runningJob(id) ?? this.#ended.get(id) ?? {};
    if (lastState !== 'done' && lastState !== 'cancelled') return false;
    for (const { pool, state } of copies) {
      const moves = movesOf(pool);
      // The note went with the volume.
      const isNoted = (await moves.noted(id)).generation > 0;
      if (isNoted || state.why !== 'given' || (await moves.whereElse(id)) !== undefined) return false;
    }
    requireOpen(pools, id);
    for (const { moves } of pools.all()) if ((await moves?.arriving())?.includes(id) === true) return false;
    for (const { pool, state } of copies) {
      const { fence, generation } = state.mark;
      if (!(await movesOf(pool).settle(id, { moveId: fence?.moveId ?? '', generation: generation + 1 }))) return false;
    }
    return true;
  }

  #requireLeftOpen(id: VolumeId, found: readonly Pool[]): void {
    const { from, node } = this.#runningJob(id) ?? this.#finishedJob(id) ?? {};
    if (from === undefined || node !== undefined || found.some(({ name }) => name === from)) return;
    // While the driver starts, not all pools may have been found.
    const isKnown = this.#isReady && !this.#options.pools.names().includes(from);
    if (isKnown || this.#options.pools.isOpen(from)) return;
    throw new Unavailable(
      `volume ${id} has moved, and its copy in pool ${from}, which is not open, goes to the trash first: try again when it is, or without that pool in the configuration, if it is lost.`,
    );
  }

  /** A move that an operator has ended without the pool which the volume left: its copy there has not gone to the trash. */
  #finishedJob(id: VolumeId): MoveJob | undefined {
    const job = this.#ended.get(id);
    return job?.state === 'done' && job.whole !== undefined ? job : undefined;
  }

  /**
   * Before the deletion of a volume that is on its way from another node: its source must hear of the end first.
   * @throws Unavailable
   */
  async requireNotComing(id: VolumeId): Promise<void> {
    if (!this.#isKnown) await withTimeout(readyMs, Promise.allSettled([this.learn()]));
    const job = this.#runningJob(id);
    if (job?.node === undefined) return;
    throw new Unavailable(
      `volume ${id} is moving here from node ${job.node}, and that has not ended: see holdfast move status.`,
    );
  }

  /**
   * Before a snapshot is removed where it is. The caller has claimed it.
   * @returns the work for when it is gone
   * @throws Unavailable while it is being handed over
   */
  beforeSnapshotRemoval(id: SnapshotId): Promise<AfterRemoval> {
    return this.#snapshots.beforeRemoval(id);
  }

  /** Ends the move of a volume that was deleted, and leaves nothing of it. The caller has claimed the volume. */
  forgetDeleted(id: VolumeId): Promise<void> {
    return this.#options.objects.claim([{ object: turnOf(id) }], 'the end of a move', async () => {
      await this.#endDeleted(id);
      await this.copies.noteDeleted(id);
    });
  }

  /** Before a volume that was deleted is there again, from the trash or by an adoption. The caller has claimed it. */
  async wanted(id: VolumeId): Promise<void> {
    await this.#options.peers?.wanted(id);
  }

  async #endDeleted(id: VolumeId): Promise<void> {
    await this.#options.peers?.forgetDeleted(id);
    const run = this.#runs.get(id);
    const job = run?.job ?? this.#left.get(id) ?? this.#ended.get(id);
    if (job === undefined || job.state === 'done' || job.state === 'cancelled') return;
    const { pools } = this.#options;
    // No later look could tell it from the last copy of a volume that is not deleted.
    if (job.whole !== undefined && pools.names().includes(job.to) && !pools.isOpen(job.to)) {
      throw new Unavailable(
        `all of volume ${id}, which is deleted, has come to pool ${job.to}, which is not open: try again when it is, or without that pool in the configuration, if it is lost.`,
      );
    }
    run?.ending.abort(new Aborted('the volume was deleted.'));
    if (run !== undefined && (await withTimeout(deletedMs, run.done)) === 'late') {
      throw new Unavailable(`the move of volume ${id}, which was deleted, has not ended yet; try again.`);
    }
    // Another try finds it.
    this.#left.delete(id);
    this.#ended.set(id, { ...job, state: 'failed' });
    await this.#rests.discard(job);
    await this.#end(job, 'failed', 'the volume was deleted.', false);
  }

  /** The pool of this node that a volume has moved to last, from another one of it, as far as that is remembered. */
  lastPoolOf(id: VolumeId): string | undefined {
    const job = this.#ended.get(id);
    return job?.state === 'done' && job.node === undefined ? job.to : undefined;
  }

  /** The space that a failed move has left where the volume went; undefined: none, or it is not known now. */
  leftBytes(job: MoveJob): Promise<bigint | undefined> {
    return this.#rests.bytesOf(job);
  }

  /** The copy that this move made was given up by its source. */
  async #endOutdated(id: VolumeId, { generation, node }: LaterCopy): Promise<void> {
    const run = this.#runs.get(id);
    const { whole } = run?.job ?? this.#ended.get(id) ?? {};
    // It brings a later copy: that word is of an earlier time.
    if (whole !== undefined && whole.generation >= generation) return;
    run?.ending.abort(new Aborted(`the volume went on at node ${node}.`));
    await run?.done;
    const job = run?.job ?? this.#ended.get(id);
    if (job !== undefined && job.state !== 'cancelled') await this.#end(job, 'cancelled', undefined);
  }

  /** Leaves all moves to the next start. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    const runs = [...this.#runs.values()];
    for (const { ending } of runs) ending.abort(new Unavailable(stopped));
    await Promise.all([...runs.map(({ done }) => done), this.#leftVolumes.stop(), this.#snapshots.stop()]);
    await this.#forgetting;
  }

  #requireReady(): void {
    if (!this.#isReady) throw starting();
  }

  #begin(job: MoveJob): Run {
    const progress: MoveProgress = {
      ...{ phase: 'copying', round: 0, doneBytes: 0n, totalBytes: 0n, copiedBytes: 0n },
      ...{ roundStartedMs: performance.now(), reached: new Reached() },
    };
    const [ending, wake] = [new AbortController(), new AbortController()];
    const run: Run = { job, progress, ending, wake, isUnconnected: false, done: Promise.resolve() };
    this.#ended.delete(job.id);
    this.#left.delete(job.id);
    this.#runs.set(job.id, run);
    run.done = this.#run(run)
      .catch((error: unknown) => this.#options.log.error({ volume_id: job.id, err: error }, 'a move has stopped'))
      .finally(() => this.#runs.delete(job.id));
    return run;
  }

  async #run(run: Run): Promise<void> {
    const { keepUpMs, log, objects, pools } = this.#options;
    const { ending, job, progress } = run;
    const { from, id, limitBytesPerSecond, to } = job;
    const facts = { volume_id: id, from, to };
    const pace = new BytesPerSecond(limitBytesPerSecond);
    const sickness = new Sickness(this.#options.fenceTimeoutMs ?? defaultFenceTimeoutMs);
    while (!ending.signal.aborted) {
      try {
        const source = this.#rests.sourceOf(job, ending.signal);
        run.source = source;
        try {
          const { signal } = ending;
          const whole = (copy: WholeCopy) => this.#noteWhole(run, copy);
          const arrived = (copy: CopyMark) => this.#noteCome(run, copy);
          const looked = async (sight: SourceSight) => {
            run.job = await this.#noteFence(run.job, sight.state);
          };
          const parts = { source, pools, objects, pace, progress, signal, whole, arrived, looked, keepUpMs };
          await new Moving({ job: run.job, ...parts }).run();
        } finally {
          source.end();
          run.source = undefined;
        }
        log.info(facts, 'a volume has moved');
        return await this.#endPatiently(run, 'done', undefined);
      } catch (error) {
        if (ending.signal.aborted) return;
        const reason = error instanceof Error ? error.message : String(error);
        if (!(await this.#isForLater(run, error))) {
          log.error({ ...facts, err: error }, 'the move of a volume failed');
          return this.#fail(run, reason);
        }
        run.isUnconnected = error instanceof NotConnected;
        if (run.trouble !== reason) log.warn({ ...facts, reason }, 'the move of a volume waits, and is tried again');
        run.trouble = reason;
        // Its pod need not wait for the disk of another pool.
        const isFurther = progress.reached.takeFurther();
        const canOpen = job.node !== undefined || this.#options.pools.isOpen(from);
        if (!canOpen) sickness.restart();
        else if (sickness.failed(performance.now(), progress.copiedBytes, isFurther))
          run.job = await this.#open(run.job);
        await pause(retryMs, AbortSignal.any([ending.signal, run.wake.signal]));
        run.wake = new AbortController();
        run.isUnconnected = false;
      }
    }
  }

  async #noteWhole(run: Run, whole: WholeCopy): Promise<void> {
    const job = { ...run.job, whole };
    await step('move/whole', () => this.#jobs.write(job));
    run.job = job;
  }

  /** Notes that the volume has come to another pool of this node. A full disk of the node does not keep its earlier copy from the trash. */
  async #noteCome(run: Run, { generation }: CopyMark): Promise<void> {
    if (run.job.arrived?.generation === generation) return;
    const job = { ...run.job, arrived: { at: new Date().toISOString(), generation } };
    try {
      await step('move/arrived', () => this.#jobs.write(job));
      run.job = job;
    } catch (error) {
      this.#options.log.warn({ volume_id: job.id, err: error }, 'the arrival of a volume cannot be noted yet');
    }
  }

  /** Notes that the fence has ended under which all of a copy was read, if that copy of its source says so. */
  async #noteFence(job: MoveJob, state: FenceSight): Promise<MoveJob> {
    const noted = withFenceEnd(job, state);
    if (noted !== job || this.#unsure.has(job.id)) await step('move/whole', () => this.#jobs.write(noted));
    this.#unsure.delete(job.id);
    return noted;
  }

  /** True if a pool is not open, or the source has handed the volume over: only its end makes it available again. */
  async #isForLater({ job, progress }: Run, error: unknown): Promise<boolean> {
    if (error instanceof Unavailable) return true;
    if (error instanceof ArrivedAndGone || error instanceof MoveEnded) return false;
    try {
      const sight = await this.#rests.sourceOf(job, AbortSignal.timeout(planMs)).look();
      if (sight?.state.why === 'given') return true;
      // Another node has ended the fence, as it had not heard of this one for long. While it stands, the next try fails like this one.
      const stands = sight?.state.mark.fence?.moveId === job.moveId;
      const isSwitching = job.node !== undefined && progress.phase === 'switching';
      return isSwitching && !stands && error instanceof FailedPrecondition;
    } catch (again) {
      return again instanceof Unavailable;
    }
  }

  /** The volume can be used where it is; its copy is kept for the next try. */
  async #fail(run: Run, reason: string): Promise<void> {
    run.job = await this.#open(run.job);
    await this.#rests.removeOfDeleted(run.job);
    await this.#endPatiently(run, 'failed', reason);
  }

  /** The node's own disk may be full: the move has not ended before that is noted, or else the next start resumes it. */
  async #endPatiently(run: Run, state: 'done' | 'failed', reason: string | undefined): Promise<void> {
    const { ending, job } = run;
    while (!ending.signal.aborted) {
      try {
        await this.#end(job, state, reason);
        return;
      } catch (error) {
        const trouble = `its end cannot be noted: ${error instanceof Error ? error.message : String(error)}`;
        if (run.trouble !== trouble)
          this.#options.log.error(
            { volume_id: job.id, err: error },
            'the end of a move cannot be noted, and is tried again',
          );
        run.trouble = trouble;
        await pause(noteRetryMs, ending.signal);
      }
    }
  }

  /**
   * Ends the fence. What cannot be done now, or noted, is tried again (`#openUnsure`).
   * @returns the job, which says that the fence has ended, also if that could not be noted
   */
  async #open(job: MoveJob): Promise<MoveJob> {
    const { from, id, node } = job;
    let known: MoveJob | undefined;
    try {
      const state = await this.#endFence(job);
      known = withFenceEnd(job, state);
      return await this.#noteFence(job, state);
    } catch (error) {
      const isFirst = !this.#unsure.has(id);
      // A volume that was handed over stays so.
      if (!(error instanceof FailedPrecondition)) this.#unsure.add(id);
      // Another node ends its fence alone.
      if (node === undefined && isFirst) {
        const what =
          known === undefined
            ? 'a volume stays fenced after its move failed'
            : 'the end of the fence of a volume cannot be noted, and is tried again';
        this.#options.log.error({ volume_id: id, pool: from, err: error }, what);
      }
      return known ?? job;
    }
  }

  /** @returns the copy at the source behind that; undefined: not all of one has come, or the source has none */
  async #endFence(job: MoveJob): Promise<FenceSight> {
    try {
      const signal = AbortSignal.any([this.#stopping.signal, AbortSignal.timeout(planMs)]);
      const source = this.#rests.sourceOf(job, signal);
      // A look behind the end might fail, and the volume can be used then.
      const sight = job.whole && (await source.look());
      await source.open();
      const { state } = sight ?? {};
      return state?.mark.fence?.moveId === job.moveId ? opened(state) : state;
    } catch (error) {
      if (error instanceof MoveEnded) return fenceBehind(error);
      throw error;
    }
  }

  /** Where a disk or a node did not answer, a fence may stand still, or have ended without a note of that. Never rejects. */
  async #openUnsure(): Promise<void> {
    const { log, objects } = this.#options;
    for (const id of this.#unsure) {
      const ended = this.#ended.get(id);
      // Asked before the volume is claimed: a disk that hangs must keep no call for it back.
      if (ended !== undefined && !(await this.#rests.doesAnswer(ended))) continue;
      await objects
        .claim([{ object: turnOf(id) }], 'the end of a move', async () => {
          const job = this.#ended.get(id);
          // One that runs sees it alone.
          if (this.#isStopping || this.#runs.has(id)) return;
          if (job?.state === 'failed') this.#ended.set(id, await this.#open(job));
          else if (job?.state !== 'cancelled' || (await this.#rests.removeAtSource(job))) this.#unsure.delete(id);
        })
        .catch((error) => {
          // Others have its volume: next time.
          if (!(error instanceof Aborted)) log.warn({ volume_id: id, err: error }, 'a fence cannot be ended');
        });
    }
  }

  /** A driver that was killed after the commit may not have noted that the volume is here. */
  async #noteArrival({ id, to }: MoveJob): Promise<void> {
    const { objects, pools } = this.#options;
    if ((await this.copies.noteOf(id))?.at === undefined) return;
    await patiently({ objects, signal: this.#stopping.signal }, [id], async () => {
      // Unless it was deleted meanwhile, or has gone on. Another pool may have an earlier copy.
      const pool = pools.isOpen(to) ? pools.get(to) : undefined;
      if (pool !== undefined && (await hasArrived(pool, id))) await movesOf(pool).noteArrival(id);
    });
  }

  /** Another node hears that they do not follow a volume which stays. Never rejects. */
  async #leaveSnapshots({ id, moveId, node }: MoveJob): Promise<void> {
    if (node === undefined) return;
    try {
      await snapshotsAt(this.#options.peers, { id, moveId, node }).end('cancelled');
    } catch {
      // An order that has left nothing else there keeps no other one back.
    }
  }

  /** @param keepsWhole the note of a whole copy is of use from then on, too */
  async #end(
    job: MoveJob,
    state: 'cancelled' | 'done' | 'failed',
    reason: string | undefined,
    keepsWhole = state === 'failed',
  ): Promise<MoveJob> {
    const { arrived, whole, ...rest } = job;
    const ended = endedJob(keepsWhole ? { ...rest, arrived, whole } : rest, state, reason);
    // Noted before the move has ended: a restart in between launches it again.
    if (state === 'done' && job.node !== undefined) await this.#noteArrival(job);
    if (state === 'done' && job.withSnapshots === true) await this.#snapshots.launch(job);
    else if (job.withSnapshots === true) void this.#leaveSnapshots(job);
    await step('move/forget', () => this.#jobs.write(ended));
    this.#ended.set(job.id, ended);
    if (state !== 'done') void this.#leftVolumes.remove();
    return ended;
  }

  /** True if a disk is as it was before the volume moved. */
  async #hasOld(id: VolumeId): Promise<boolean> {
    const copies = await copiesIn(this.#options.pools, id);
    return copies.some(({ state }) => state.why === 'old');
  }
}

/** The sight of a move that does not run. */
export function sightWithout(job: MoveJob): MoveSight {
  return { job, progress: undefined, trouble: undefined, isUnconnected: false };
}

/** True if these are snapshots of the volume that followed it then, or later. Those from another node were ordered with that move. */
function isAfter({ job }: SnapshotsSight, move: MoveSight): boolean {
  if (job.id !== move.job.id) return false;
  if (job.node !== undefined) return job.moveId === move.job.moveId;
  return job.state === 'running' || (job.endedAt ?? job.startedAt) >= move.job.startedAt;
}

/** True if the volume of these snapshots, which were handed over, has left for the same node. */
function isWith({ job: { id, node } }: SnapshotsSight, { job }: MoveSight): boolean {
  return job.id === id && job.to === '' && job.node === node;
}

/** True if they are shown without a move of their volume: there is none, or they came from another node after it, or one waits. */
function isWorth({ job }: SnapshotsSight, sights: readonly MoveSight[]): boolean {
  if (hasWaiting(job)) return true;
  return sights.every((sight) => sight.job.id !== job.id || (job.node !== undefined && isBefore(sight, job)));
}

function isBefore({ job: { startedAt } }: MoveSight, job: MoveJob): boolean {
  return job.state === 'running' || job.startedAt >= startedAt;
}

/** The move of a volume whose snapshots alone are known to follow: it is where they go. */
function endedOf({ job }: SnapshotsSight): MoveJob {
  const { snapshots: _snapshots, reason: _reason, ...rest } = job;
  return rest;
}

/**
 * The copy at the source of a move; 'ended': its pool is away, and its fence ends once that is there, as the move has ended. undefined: nothing is
 * known of a fence.
 */
type FenceSight = CopyState | 'ended' | undefined;

function fenceBehind(error: MoveEnded): FenceSight {
  const { isDeleted = false, state } = error.left ?? {};
  if (state !== undefined || isDeleted || error instanceof MoveForgotten) return state;
  return 'ended';
}

/** Notes in a job that the fence has ended under which all of a copy was read: the volume may have changed since. */
function withFenceEnd(job: MoveJob, state: FenceSight): MoveJob {
  const { whole } = job;
  if (state === undefined || whole === undefined || whole.fenceEndedAt !== undefined) return job;
  // An earlier copy of the volume says nothing of it.
  const isUnseen = state !== 'ended' && (isEarlier(state) || state.mark.fence?.fenceId === whole.fenceId);
  if (isUnseen) return job;
  return { ...job, whole: { ...whole, fenceEndedAt: new Date().toISOString() } };
}

/** A copy behind the end of its fence. */
function opened({ mark: { generation } }: CopyState): CopyState {
  return { mark: { generation }, why: undefined };
}

function waitsForTurn({ title }: QueuedSource): string {
  return `it waits until fewer moves from ${title} copy at a time.`;
}

function notComing(id: VolumeId, { lostNode }: LostOrder): NotFound {
  return new NotFound(`volume ${id} is not moving here from node ${lostNode}: see holdfast move status.`);
}

function starting(): Unavailable {
  return new Unavailable('the driver is starting, and its moves are not known yet; try again.');
}

function isElsewhere({ id, to }: MoveJob, pool: string | undefined): FailedPrecondition {
  return new FailedPrecondition(
    `volume ${id} is in pool ${pool} of this node by now, and this move has not brought it there: the copy in pool ${to} may have another state of it. If that is not needed: kubectl holdfast move cancel ${id} --even-so, with this node as --node, removes it.`,
  );
}

function handedOverTo({ id, to }: MoveJob): FailedPrecondition {
  return new FailedPrecondition(
    `volume ${id} was handed over to pool ${to}: order its move to that pool, or cancel it first (holdfast move cancel ${id}).`,
  );
}
