import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import type { PoolLog } from '../../pool/log.ts';
import type { CopyState } from '../../pool/moves.ts';
import type { Pools } from '../../pool/pools.ts';
import { FailedPrecondition, Unavailable } from '../../volume/errors.ts';
import { LastReasons } from '../../volume/flow/last-reasons.ts';
import type { ObjectQueue } from '../../volume/flow/object-queue.ts';
import { pause } from '../../volume/flow/pause.ts';
import { TurnsByKey } from '../../volume/flow/turns.ts';
import { withTimeout } from '../../volume/flow/with-timeout.ts';
import type { VolumeId } from '../../volume/id.ts';
import { isVolume } from '../../volume/move/rule.ts';
import { step } from '../../volume/step.ts';
import { copiesIn } from '../copies.ts';
import { defaultFenceTimeoutMs, endedJob, forgettable, type MoveJob, MoveJobs } from '../job.ts';
import type { CancelledLeaving, PeerMove } from '../peers.ts';
import { hasAllData } from '../snapshots/survivor.ts';
import { leaveNothing, leftPool, MoveEnded, MoveForgotten, movesOf, PoolSource } from '../source.ts';
import { Reads } from './reads.ts';
import { Refusals } from './refusals.ts';
import { NotAdmitted, type Operation } from './wire.ts';

export interface LeavingsOptions {
  readonly pools: Pools;
  readonly objects: ObjectQueue;
  /** The driver's own directory, HOLDFAST_DATA. */
  readonly dataDirectory: string;
  readonly queue: DiskQueue;
  readonly log: PoolLog;
  /** The volume is moving between pools of this node. */
  readonly isMovingHere: (id: VolumeId) => boolean;
  /** The time for which a volume stays fenced whose target is not heard. */
  readonly fenceTimeoutMs?: number;
}

/** The order of the controller: this node, and no other, may read the volume and have it handed over. */
interface Admission {
  readonly moveId: string;
  readonly node: string;
  /** An operator has just ordered it: it may begin again although it had ended. */
  isOrder?: boolean;
  expiresMs: number;
}

/** `order`: of an operator, just now; `plan`: only to look at the volume; `again`: of a move that was ordered before. */
export type AdmissionKind = 'again' | 'order' | 'plan';

/** The operations of a target that has the volume, and whose word of it was lost. */
const lastOperations: ReadonlySet<Operation> = new Set(['look', 'settle', 'remove-snapshots']);

/** A plan is made at once. */
const plannedMs = 60_000;
/** An admission that is not used for that time has to be renewed. */
const admittedMs = 10 * 60_000;
const lookMs = 5_000;
/** A target that is silent for that time is given up: its snapshots would hold the space of overwritten blocks. */
const abandonedMs = 86_400_000;

/**
 * The source's end of moves to other nodes. The target asks for each step; this lets in whom the controller has admitted,
 * notes the moves that may leave something behind, and ends the fence of a target that is silent, as the rule allows the source alone.
 */
export class Leavings {
  readonly #options: LeavingsOptions;
  readonly #jobs: MoveJobs;
  /** The notes of a volume are written and removed one after the other. */
  readonly #notes = new TurnsByKey<VolumeId>();
  readonly #admitted = new Map<VolumeId, Admission>();
  readonly #planned = new Map<VolumeId, Admission>();
  readonly #refusals = new Refusals();
  readonly #jobsById = new Map<VolumeId, MoveJob>();
  /** The notes have been read. */
  #isKnown = false;
  /** When the target was heard last, or its pool was not open yet, or the wait for it began, by performance.now(). */
  readonly #heardMs = new Map<VolumeId, number>();
  /** When the target came last, since this process started. */
  readonly #cameMs = new Map<VolumeId, number>();
  readonly #reads = new Reads();
  /** Moves that were given up here, and may have left something in a pool that was away then. */
  readonly #unended = new Set<VolumeId>();
  readonly #warned = new LastReasons();
  readonly #stopping = new AbortController();
  #running: Promise<void> = Promise.resolve();

  constructor(options: LeavingsOptions) {
    this.#options = options;
    this.#jobs = new MoveJobs(options.dataDirectory, options.queue, 'leaving');
  }

  /** Takes up what a driver before this one has left. A pool that is not open must not keep that back. */
  async resume(): Promise<void> {
    const { log } = this.#options;
    const { jobs, problems } = await this.#jobs.read();
    for (const error of problems) log.error({ err: error }, 'the note of a move cannot be read');
    for (const job of jobs) {
      this.#jobsById.set(job.id, job);
      this.#heardMs.set(job.id, performance.now());
      if (job.state === 'cancelled' || job.state === 'failed') this.#unended.add(job.id);
    }
    this.#isKnown = true;
    await this.#forgetEnded();
    this.#running = this.#watch();
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#running;
  }

  /** The moves. @throws Unavailable until they are known: none is let in, refused or given up before */
  get #known(): Map<VolumeId, MoveJob> {
    if (this.#isKnown) return this.#jobsById;
    throw new Unavailable('the driver is starting, and its moves are not known yet; try again.');
  }

  jobs(): MoveJob[] {
    return [...this.#known.values()];
  }

  /** The node that the volume is moving to; undefined: it is not. */
  nodeFor(id: VolumeId): string | undefined {
    const job = this.#known.get(id);
    return job?.state === 'running' ? job.node : undefined;
  }

  /** The move has not ended here. */
  isRunning(id: VolumeId, moveId: string): boolean {
    return this.#jobOf(id, moveId)?.state === 'running';
  }

  #isHeard(id: VolumeId): boolean {
    const { fenceTimeoutMs = defaultFenceTimeoutMs } = this.#options;
    return performance.now() - (this.#cameMs.get(id) ?? -fenceTimeoutMs) < fenceTimeoutMs;
  }

  /** The controller has brokered the move. @throws FailedPrecondition while another one is under way, or once it has ended here */
  async admit({ id, moveId, node }: PeerMove, kind: AdmissionKind): Promise<void> {
    if (this.#options.isMovingHere(id)) {
      throw new FailedPrecondition(`volume ${id} is moving to another pool of this node: see holdfast move status.`);
    }
    const before = this.#known.get(id);
    const whyEnded = kind === 'again' ? await this.#whyEnded(id, moveId) : undefined;
    if (whyEnded !== undefined) throw new MoveEnded(whyEnded);
    if (kind === 'again' && !(await this.#hasBegun({ id, moveId, node }))) {
      const forgotten = new MoveForgotten(`the node of volume ${id} knows nothing of this move: order it again.`);
      throw this.#refusals.refuse({ id, moveId, node }, forgotten);
    }
    if (before?.state === 'running' && before.moveId !== moveId) {
      // The controller knows whether the target itself still runs the earlier one.
      if ((before.node !== node && this.#isHeard(id)) || kind === 'again') {
        throw new FailedPrecondition(
          `volume ${id} is moving to node ${before.node} already: see holdfast move status.`,
        );
      }
      if (kind === 'order') await this.#abandon(before, `a move to node ${node} was ordered.`);
    }
    if (kind === 'plan') {
      this.#planned.set(id, { moveId, node, expiresMs: performance.now() + plannedMs });
      return;
    }
    // A stream that was let in before belongs to a move that goes on no more.
    this.#reads.stop(id, (read) => read.moveId !== moveId || this.#admitted.get(id)?.node !== node);
    this.#heardMs.set(id, performance.now());
    this.#admitted.set(id, { moveId, node, isOrder: kind === 'order', expiresMs: performance.now() + admittedMs });
  }

  /**
   * The node that may do that, or that may hear why the move has ended here.
   * @throws NotAdmitted
   */
  admitted(id: VolumeId, moveId: string, operation: Operation): { readonly node: string; readonly ended?: MoveEnded } {
    const admissions = [this.#admitted.get(id), ...(operation === 'describe' ? [this.#planned.get(id)] : [])];
    const found = admissions.find((each) => each?.moveId === moveId && each.expiresMs >= performance.now());
    const job = this.#jobOf(id, moveId);
    const isOver = job !== undefined && job.state !== 'running' && found?.isOrder !== true;
    if (found !== undefined && !isOver) return { node: found.node };
    const refused = this.#refusals.of(id, moveId);
    if (refused !== undefined) return refused;
    if (found !== undefined && job?.state === 'done') {
      const isLast = lastOperations.has(operation);
      return { node: found.node, ...(!isLast && { ended: new MoveEnded(`the move of volume ${id} has ended.`) }) };
    }
    const whyEnded = job && whyItEnded(job);
    if (job?.node === undefined || whyEnded === undefined) {
      throw new NotAdmitted(`this node knows nothing of a move of volume ${id}; the controller has to say so.`);
    }
    return { node: job.node, ended: new MoveEnded(whyEnded) };
  }

  /** The end of a move, with what this node has of the volume: all that has come to its target may be the last copy. */
  async withLeft({ id, moveId }: PeerMove, ended: MoveEnded): Promise<MoveEnded> {
    const job = this.#jobOf(id, moveId);
    if (job === undefined) return ended;
    const copies = await copiesIn(this.#options.pools, id);
    const volume = copies.find(({ state }) => isVolume(state));
    // By that word the target removes its copy.
    const isDamaged =
      volume !== undefined && !(await hasAllData({ verified: () => movesOf(volume.pool).verified(id) }));
    const { state } = volume ?? copies[0] ?? {};
    return new MoveEnded(ended.message, { state: isDamaged ? undefined : state, isDeleted: job.isDeleted === true });
  }

  /** undefined: it may go on. One that is done goes on, too, to hear of it, unless the volume has come back since. */
  async #whyEnded(id: VolumeId, moveId: string): Promise<string | undefined> {
    const job = this.#jobOf(id, moveId);
    if (job?.state !== 'done') return job && whyItEnded(job);
    const state = await this.#stateOf(job);
    return state !== undefined && state.why === undefined ? `the move of volume ${id} has ended.` : undefined;
  }

  /**
   * True if the move left a sign here that it was ordered. The controller's word alone is not enough for one that it has not just
   * ordered: the ticket that a node shows it has no end.
   */
  async #hasBegun({ id, moveId, node }: PeerMove): Promise<boolean> {
    const admission = this.#admitted.get(id);
    const isAdmitted = admission?.moveId === moveId && admission.node === node;
    if (isAdmitted && admission.expiresMs >= performance.now()) return true;
    if (this.#jobOf(id, moveId)?.node === node) return true;
    const { pool } = (await this.#options.pools.find(id)) ?? {};
    const fence = (await pool?.moves?.stateOf(id))?.mark.fence;
    return fence?.moveId === moveId && fence.to === node;
  }

  /** The node of a move has asked for something. It keeps no other move in, nor the fence of another one up. */
  heard({ id, moveId, node }: PeerMove): void {
    const admission = this.#admitted.get(id);
    if (admission?.moveId !== moveId || admission.node !== node) return;
    const state = this.#jobOf(id, moveId)?.state;
    // A move that has ended keeps no node in.
    if (state === undefined || state === 'running') {
      admission.expiresMs = performance.now() + admittedMs;
    }
    this.#heardMs.set(id, performance.now());
    this.#cameMs.set(id, performance.now());
  }

  /** The volume, for its target; undefined: it is not here. @throws Unavailable if a pool may have it that is not open */
  async source({ id, moveId, node }: PeerMove, signal: AbortSignal): Promise<PoolSource | undefined> {
    const { objects, pools } = this.#options;
    const job = this.#jobOf(id, moveId);
    // One that has failed may be ordered again, and the volume be in another pool by now.
    const isLeft = job?.state === 'running' || job?.state === 'done';
    const pool = isLeft ? leftPool(pools, job) : (await pools.find(id))?.pool;
    const requireRunning = () => this.#requireRunning({ id, moveId, node });
    return pool && new PoolSource({ pool, id, moveId, to: node, objects, signal, requireRunning });
  }

  /** The end of a move is noted in a claim of its volume, and this asked in one. @throws NotAdmitted */
  #requireRunning({ id, moveId, node }: PeerMove): void {
    const admission = this.#admitted.get(id);
    const isAdmitted = admission?.moveId === moveId && admission.node === node;
    if (isAdmitted && this.#jobOf(id, moveId)?.state === 'running') return;
    throw new NotAdmitted(`the move of volume ${id} has ended, or was ordered again.`);
  }

  /** A stream for a move that was just let in. It ends with the admission or, if it reads the volume itself, with the fence. */
  reading({ id, moveId }: PeerMove, isFenced: boolean, work: (ended: AbortSignal) => Promise<void>): Promise<void> {
    return this.#reads.during(id, { moveId, isFenced }, work);
  }

  /** Ends a fence, and before it the streams that it protects. */
  async unfence(id: VolumeId, end: () => Promise<void>): Promise<void> {
    await this.#reads.end(id, ({ isFenced }) => isFenced);
    await end();
  }

  /** The target of an ordered move has come: it may come again after a restart. One that had ended here may be ordered again. */
  async looked(move: PeerMove): Promise<void> {
    const { id, moveId } = move;
    const admission = this.#admitted.get(id);
    const isOrder = admission?.moveId === moveId && admission.isOrder === true;
    if (isOrder || this.#jobOf(id, moveId) === undefined) await this.begin(move);
  }

  /** Before the move leaves anything here. */
  async begin({ id, moveId, node }: PeerMove): Promise<void> {
    const job = this.#jobOf(id, moveId);
    if (job?.state === 'running') return;
    const isOrder = this.#admitted.get(id)?.isOrder === true;
    if (job !== undefined && !isOrder) throw new MoveEnded(whyItEnded(job) ?? `the move of volume ${id} has ended.`);
    const { pool } = await this.#options.pools.require(id);
    movesOf(pool);
    const startedAt = new Date().toISOString();
    await this.#note({ moveId, id, from: pool.name, to: '', node, startedAt, state: 'running' });
    const admission = this.#admitted.get(id);
    if (admission?.moveId === moveId) admission.isOrder = false;
  }

  /** The target has committed, or given it up. */
  async end({ id, moveId }: Pick<PeerMove, 'id' | 'moveId'>, state: 'cancelled' | 'done'): Promise<void> {
    const job = this.#jobOf(id, moveId);
    if (job?.state === 'running') await this.#note(endedJob(job, state));
  }

  /** The target has it, as the controller knows from there. */
  async arrived(id: VolumeId, node: string): Promise<void> {
    const job = this.#known.get(id);
    if (job?.node === node) await this.end(job, 'done');
  }

  /** Ends the move of a volume that was deleted. The caller has claimed it. */
  async forgetDeleted(id: VolumeId): Promise<void> {
    const job = this.#known.get(id);
    this.#admitted.delete(id);
    await this.#reads.end(id);
    if (job === undefined || job.state === 'done') return;
    const deleted = { ...job, isDeleted: true } as const;
    if (job.state === 'running') await this.#endWithoutVolume(deleted, 'the volume was deleted.');
    else await this.#note(deleted);
  }

  /** Before a volume that was deleted is there again: all that has come to its target may be the last copy of it. */
  async wanted(id: VolumeId): Promise<void> {
    const job = this.#known.get(id);
    if (job?.isDeleted === true) await this.#note({ ...job, isDeleted: undefined });
  }

  /**
   * Gives a move up at its source alone, as it may until it has handed the volume over.
   * @param isEvenSo the second word of an operator: there may be no copy here, or an earlier one, or no pool that it leaves
   * @returns undefined if there is none, or an earlier copy is left, which is the volume again by that word
   * @throws FailedPrecondition once it was handed over, or if the volume is not here
   */
  async cancel(id: VolumeId, isEvenSo: boolean): Promise<CancelledLeaving | undefined> {
    const job = this.#known.get(id);
    if (job?.state !== 'running') return undefined;
    const back = await this.#endIfBack(job);
    if (back !== undefined) return back;
    if (this.#isPoolAway(job) && !isEvenSo) throw poolAway(job);
    const state = this.#isPoolAway(job) ? undefined : await this.#stateOf(job);
    if (isEvenSo && state === undefined) {
      const isUnseen = this.#isPoolAway(job) || undefined;
      return { ...(await this.#endWithoutVolume(job, undefined)), ...(isUnseen && { isUnseen }) };
    }
    if (isEvenSo && state?.why === 'old') return undefined;
    if (state?.why === 'given') {
      throw new FailedPrecondition(
        `volume ${id} was handed over to node ${job.node}: cancel the move there. If that node will never come back: --node-is-lost ${job.node}.`,
      );
    }
    return this.#abandon(job, undefined);
  }

  /** The target is lost, and the copy was taken back. The caller has claimed it. */
  async takenBack(id: VolumeId): Promise<void> {
    const job = this.#known.get(id);
    this.#admitted.delete(id);
    this.#reads.stop(id);
    if (job?.state === 'running') await this.#note(endedJob(job, 'cancelled'));
  }

  async #watch(): Promise<void> {
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      await this.#endInPools();
      await pause(lookMs, signal);
      await this.#forgetEnded();
      for (const job of this.#known.values()) {
        if (signal.aborted || job.state !== 'running') continue;
        await this.#look(job).then(
          () => this.#warned.forget(job.id),
          (error: unknown) => this.#warn(job, error),
        );
      }
    }
  }

  /** Forgets moves whose end is reported no more. Never rejects. */
  async #forgetEnded(): Promise<void> {
    for (const job of forgettable(this.#jobsById.values())) {
      const { id } = job;
      // By the note the fence ends once the pool is there, however late.
      if (this.#unended.has(id)) continue;
      const forgotten = this.#notes.run(id, async () => {
        // It may have been ordered again.
        if (this.#jobsById.get(id) !== job) return;
        await this.#jobs.forget(id);
        for (const known of [this.#jobsById, this.#heardMs, this.#cameMs]) known.delete(id);
      });
      await forgotten.catch((error: unknown) => this.#warn(job, error, 'the end of a move cannot be forgotten'));
    }
  }

  /** Within a node, each start does the same (`Rests.removeAtSource`). Never rejects. */
  async #endInPools(): Promise<void> {
    for (const id of this.#unended) {
      const job = this.#known.get(id);
      if (job === undefined || job.state === 'running' || job.state === 'done') this.#unended.delete(id);
      else if (this.#options.pools.isOpen(job.from)) {
        await this.#endInPool(job).catch((error: unknown) =>
          this.#warn(job, error, 'the rest of the move of a volume is left'),
        );
      }
    }
  }

  async #endInPool(job: MoveJob): Promise<void> {
    const { objects, pools } = this.#options;
    const { from, id } = job;
    // Asked before the volume is claimed: a disk that hangs must keep no call for it back.
    if ((await withTimeout(lookMs, this.#stateOf(job))) === 'late') return;
    await objects.claim([{ object: id }], 'the end of a move', async () => {
      // It may have been ordered again, or its note been written once more: that is looked at next.
      if (this.#known.get(id) !== job) return;
      await leaveNothing(pools.get(from), job);
      this.#unended.delete(id);
    });
  }

  #warn({ id }: MoveJob, error: unknown, what = 'a volume stays fenced whose move is silent'): void {
    if (!this.#warned.isNew(id, String(error))) return;
    this.#options.log.warn({ volume_id: id, err: error }, what);
  }

  async #look(job: MoveJob): Promise<void> {
    const { fenceTimeoutMs = defaultFenceTimeoutMs, log, pools } = this.#options;
    // Its target gets at nothing before, and a pod neither.
    if (!pools.isOpen(job.from)) this.#heardMs.set(job.id, performance.now());
    const silentMs = performance.now() - (this.#heardMs.get(job.id) ?? 0);
    if (silentMs < fenceTimeoutMs || (await this.#isGiven(job))) return;
    if (silentMs > abandonedMs) {
      await this.#abandon(job, `node ${job.node} has not been heard for a day.`);
      return;
    }
    const state = await this.#stateOf(job);
    if (state?.why !== 'closed' || state.mark.fence?.moveId !== job.moveId) return;
    await this.unfence(job.id, () => this.#sourceOf(job).open());
    log.warn({ volume_id: job.id, node: job.node }, 'the fence of a volume has ended, as its target is silent');
  }

  /** The volume can be used here, and nothing of the move is left. @throws FailedPrecondition if the volume is not here */
  async #abandon(job: MoveJob, reason: string | undefined): Promise<MoveJob> {
    const back = await this.#endIfBack(job);
    if (back !== undefined) return back;
    const state = await this.#stateOf(job);
    if (state === undefined || state.why === 'old') throw notHere(job, state);
    await this.#shutOut(job);
    return this.#sourceOf(job).giveUp(() => this.#noteEnd(job, reason));
  }

  /**
   * Ends a move whose pool has nothing of the volume any more, or is no pool of this node, if the volume has come to another pool here: it has
   * left that one, whatever has become of its disk.
   * @returns the move, as one from the pool that the volume is in; undefined: it is in none
   */
  async #endIfBack(job: MoveJob): Promise<MoveJob | undefined> {
    const state = this.#isPoolAway(job) ? undefined : await this.#stateOf(job);
    if (state !== undefined && state.why !== 'old') return undefined;
    const copies = await copiesIn(this.#options.pools, job.id);
    const back = copies.find(({ pool, state }) => pool.name !== job.from && isVolume(state));
    if (back === undefined) return undefined;
    await this.#shutOut(job);
    return { ...(await this.#noteEnd(job, undefined)), from: back.pool.name };
  }

  #isPoolAway({ from }: MoveJob): boolean {
    return !this.#options.pools.names().includes(from);
  }

  async #endWithoutVolume(job: MoveJob, reason: string | undefined): Promise<MoveJob> {
    await this.#shutOut(job);
    if (this.#isPoolAway(job)) this.#unended.add(job.id);
    else await this.#sourceOf(job).removeSnapshots();
    return this.#noteEnd(job, reason);
  }

  async #shutOut({ id, moveId }: MoveJob): Promise<void> {
    if (this.#admitted.get(id)?.moveId === moveId) this.#admitted.delete(id);
    await this.#reads.end(id);
  }

  #noteEnd(job: MoveJob, reason: string | undefined): Promise<MoveJob> {
    return this.#note(endedJob(job, reason === undefined ? 'cancelled' : 'failed', reason));
  }

  #sourceOf(job: MoveJob): PoolSource {
    const { id, moveId } = job;
    const { objects, pools } = this.#options;
    return new PoolSource({ pool: leftPool(pools, job), id, moveId, objects, signal: this.#stopping.signal });
  }

  async #stateOf(job: MoveJob) {
    const { id } = job;
    const pool = leftPool(this.#options.pools, job);
    return (await pool.find(id)) === undefined ? undefined : movesOf(pool).stateOf(id);
  }

  async #isGiven(job: MoveJob): Promise<boolean> {
    return (await this.#stateOf(job))?.why === 'given';
  }

  #jobOf(id: VolumeId, moveId: string): MoveJob | undefined {
    const job = this.#known.get(id);
    return job?.moveId === moveId ? job : undefined;
  }

  async #note(job: MoveJob): Promise<MoveJob> {
    await this.#notes.run(job.id, async () => {
      await step(job.state === 'running' ? 'move/note' : 'move/forget', () => this.#jobs.write(job));
      this.#known.set(job.id, job);
    });
    this.#heardMs.set(job.id, performance.now());
    if (job.state !== 'running') this.#reads.stop(job.id, ({ moveId }) => moveId === job.moveId);
    return job;
  }
}

/** @param earlier the copy that is there */
function notHere({ from, id, node }: MoveJob, earlier: CopyState | undefined): FailedPrecondition {
  if (earlier !== undefined) {
    return new FailedPrecondition(
      `pool ${from} of this node has an earlier copy of volume ${id}, as its disk was put back, or one that was given up by an order which said that this disk is lost, and which was cut short: all of it may be on node ${node}, and be the last copy. If a disk has a later copy, put that back. kubectl holdfast move cancel ${id} --node ${node} says if all of it has come there. To have the copy in pool ${from}: kubectl holdfast move cancel ${id} --node ${node} --even-so, which removes that, and then the same with this node as --node.`,
    );
  }
  return new FailedPrecondition(
    `pool ${from} of this node has no copy of volume ${id}: all of it may be on node ${node}, and be the last copy. Put the later disk of pool ${from} back. If it is lost: kubectl holdfast move cancel ${id} --node ${node} ends the move there, and says how the copy that has come there becomes the volume. If none has come there: the same with this node as --node, and --even-so.`,
  );
}

function poolAway({ from, id, node }: MoveJob): Unavailable {
  return new Unavailable(
    `pool ${from}, which volume ${id} leaves, is not in the configuration of this node: all of the volume may be on node ${node}, and be the last copy. Put pool ${from} and its disk back: the move goes on then. If it is lost: kubectl holdfast move cancel ${id} --node ${node} ends the move there, and says how the copy that has come there becomes the volume. If it has, or none has come there: the same with this node as --node, and --even-so.`,
  );
}

function whyItEnded({ id, reason, state }: MoveJob): string | undefined {
  if (state === 'cancelled') return `the move of volume ${id} was cancelled where the volume is.`;
  if (state === 'failed') return `the move of volume ${id} has ended where the volume is: ${reason ?? 'it failed.'}`;
  return undefined;
}
