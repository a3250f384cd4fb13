import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import type { PoolLog } from '../../pool/log.ts';
import type { Pools } from '../../pool/pools.ts';
import { FailedPrecondition, NotFound, Unavailable } from '../../volume/errors.ts';
import type { ObjectQueue } from '../../volume/flow/object-queue.ts';
import { TurnsByKey } from '../../volume/flow/turns.ts';
import type { SnapshotId, VolumeId } from '../../volume/id.ts';
import { step } from '../../volume/step.ts';
import { endedJob, isLongPast, type MoveJob, MoveJobs, type NamedSnapshot, noSnapshots } from '../job.ts';
import type { PeerMove } from '../peers.ts';
import { type CancelledLeaving, inOrder, PoolHeld } from '../snapshots/held.ts';
import { isOfSnapshot } from '../snapshots/waiting.ts';
import { MoveEnded, MoveForgotten } from '../source.ts';
import { Reads } from './reads.ts';
import { Refusals } from './refusals.ts';
import { NotAdmitted, type SnapshotOperation } from './wire.ts';

export interface SnapshotLeavingsOptions {
  readonly pools: Pools;
  readonly objects: ObjectQueue;
  /** The driver's own directory, HOLDFAST_DATA. */
  readonly dataDirectory: string;
  readonly queue: DiskQueue;
  readonly log: PoolLog;
  /** Snapshots may follow a volume to another node. Experimental, and off by default. */
  readonly movesSnapshots?: boolean | undefined;
  /** Snapshots of the volume are still coming here from another node. */
  readonly areComing: (id: VolumeId) => boolean;
  /** The move of the volume itself has not ended: its snapshots follow later. */
  readonly isLeaving: (id: VolumeId, moveId: string) => boolean;
}

/** `order`: of an operator, just now; `plan`: only to look at them; `again`: of an order before. */
export type SnapshotAdmissionKind = 'again' | 'order' | 'plan';

interface Admission {
  readonly moveId: string;
  readonly node: string;
  expiresMs: number;
}

/** An admission that is not used for that time has to be renewed. */
const admittedMs = 10 * 60_000;
/** A plan is made at once. */
const plannedMs = 60_000;
/** A target that has left nothing here, and is silent for that time, gets nothing more. */
const abandonedMs = 86_400_000;

/** A plan asks for these. */
const planOperations: ReadonlySet<SnapshotOperation> = new Set(['snapshots', 'snapshot-share']);
/** One that has ended here hears of what it has handed over, and says that it has it. */
const lastOperations: ReadonlySet<SnapshotOperation> = new Set(['snapshot-look', 'snapshot-settle', 'snapshots-end']);

/**
 * The source's end of snapshots that follow their volume to another node, after the volume has moved. The other node asks for each step;
 * this lets in whom the controller has admitted, and notes for how long. A fence of a snapshot keeps no one from it: none has to end in time.
 */
export class SnapshotLeavings {
  readonly #options: SnapshotLeavingsOptions;
  readonly #jobs: MoveJobs;
  /** The notes of a volume are written one after the other. */
  readonly #notes = new TurnsByKey<VolumeId>();
  readonly #admitted = new Map<VolumeId, Admission>();
  readonly #planned = new Map<VolumeId, Admission>();
  readonly #jobsById = new Map<VolumeId, MoveJob>();
  readonly #refusals = new Refusals();
  readonly #reads = new Reads<SnapshotId>();
  /** When the target came last, by performance.now(); one that has not since this process started came then. */
  readonly #cameMs = new Map<VolumeId, number>();
  readonly #startedMs = performance.now();
  #isKnown = false;

  constructor(options: SnapshotLeavingsOptions) {
    this.#options = options;
    this.#jobs = new MoveJobs(options.dataDirectory, options.queue, 'leaving-snapshots');
  }

  /** Reads the notes of a driver before this one. A pool that is not open must not keep that back. */
  async resume(): Promise<void> {
    const { jobs, problems } = await this.#jobs.read();
    for (const error of problems) this.#options.log.error({ err: error }, 'the note of a move cannot be read');
    for (const job of jobs) {
      if (isLongPast(job)) await this.#jobs.forget(job.id);
      else this.#jobsById.set(job.id, job);
    }
    this.#isKnown = true;
  }

  /** @throws Unavailable until the notes are known: none is let in or refused before */
  get #known(): Map<VolumeId, MoveJob> {
    if (this.#isKnown) return this.#jobsById;
    throw new Unavailable('the driver is starting, and its moves are not known yet; try again.');
  }

  /** The last order that they follow their volume; undefined: there is none, or it is not known yet. */
  jobOf(id: VolumeId): MoveJob | undefined {
    return this.#jobsById.get(id);
  }

  /** The controller has brokered it. @throws FailedPrecondition: why not */
  async admit(move: PeerMove, kind: SnapshotAdmissionKind): Promise<void> {
    const { id, moveId, node } = move;
    if (kind === 'again') await this.#requireBegun(move);
    else await this.#requireFree(move);
    const admissions = kind === 'plan' ? this.#planned : this.#admitted;
    admissions.set(id, { moveId, node, expiresMs: performance.now() + (kind === 'plan' ? plannedMs : admittedMs) });
  }

  async #requireFree({ id, node }: PeerMove): Promise<void> {
    const { areComing, movesSnapshots } = this.#options;
    if (movesSnapshots !== true) {
      throw new FailedPrecondition(
        'Snapshots follow a volume from this node only where its driver has HOLDFAST_MOVE_SNAPSHOTS=true: this is experimental, and off by default.',
      );
    }
    if (areComing(id)) {
      throw new FailedPrecondition(
        `the snapshots of volume ${id} are still coming to this node: see holdfast move status.`,
      );
    }
    const other = await this.nodeFor(id);
    if (other === undefined || other === node) return;
    throw new FailedPrecondition(
      `the snapshots of volume ${id} are following it to node ${other}: wait for that, or cancel it there first (holdfast move cancel ${id}).`,
    );
  }

  /** The controller's word alone is not enough for what it has not just ordered: the ticket that a node shows it has no end. */
  async #requireBegun(move: PeerMove): Promise<void> {
    const { id, moveId, node } = move;
    const job = this.#known.get(id);
    const isOurs = job?.moveId === moveId && job.node === node;
    if (isOurs && job.state === 'running' && (await this.#isAwaited(job))) return;
    const admission = this.#admitted.get(id);
    const isAdmitted = admission?.moveId === moveId && admission.node === node;
    if (isAdmitted && admission.expiresMs >= performance.now()) return;
    if (isOurs && job.state !== 'running') throw over(id);
    // Asked before the look: a pool that opens later was not looked at.
    const notOpen = this.#whyNotAllOpen(id);
    // Its own disk, or that of the other node, was lost since: the fence says that it was ordered.
    if ((job?.state !== 'running' || job.node === node) && (await this.#hasFence(id, node))) return;
    // The other node ends its order by that word: a pool that is not open may have one that was handed over.
    if (notOpen !== undefined) throw notOpen;
    const forgotten = `the node of the snapshots of volume ${id} knows nothing of this move: order it again.`;
    throw this.#refusals.refuse(move, new MoveForgotten(forgotten));
  }

  async #isAwaited({ id, moveId, node = '' }: MoveJob): Promise<boolean> {
    const silentMs = performance.now() - (this.#cameMs.get(id) ?? this.#startedMs);
    return silentMs < abandonedMs || this.#options.isLeaving(id, moveId) || (await this.#hasFence(id, node));
  }

  /** True if one of them is fenced for a move to that node, or was handed over to it. */
  async #hasFence(id: VolumeId, node: string): Promise<boolean> {
    for (const held of PoolHeld.all(this.#options.pools.all(), id)) {
      if ((await held.look())?.mark.fence?.to === node) return true;
    }
    return false;
  }

  /** The node that may do that, or that may hear why they follow no longer. @throws NotAdmitted */
  admitted(
    id: VolumeId,
    moveId: string,
    operation: SnapshotOperation,
  ): { readonly node: string; readonly ended?: MoveEnded } {
    const job = this.#known.get(id);
    const isOurs = job?.moveId === moveId;
    const admissions = [this.#admitted.get(id), ...(planOperations.has(operation) ? [this.#planned.get(id)] : [])];
    const found = admissions.find((each) => each?.moveId === moveId && each.expiresMs >= performance.now());
    const refused = found === undefined ? this.#refusals.of(id, moveId) : undefined;
    if (refused !== undefined) return refused;
    const node = found?.node ?? (isOurs && job.state !== 'running' ? job.node : undefined);
    if (node === undefined) {
      throw new NotAdmitted(
        `this node knows of no snapshots of volume ${id} that follow it; the controller has to say so.`,
      );
    }
    // An order that came after its end begins it again.
    const isOver = isOurs && job.state !== 'running' && found === undefined && !lastOperations.has(operation);
    return { node, ...(isOver && { ended: over(id) }) };
  }

  heard({ id, moveId, node }: PeerMove): void {
    const admission = this.#admitted.get(id);
    if (admission?.moveId !== moveId || admission.node !== node) return;
    admission.expiresMs = performance.now() + admittedMs;
    this.#cameMs.set(id, performance.now());
  }

  /** Before anything of it is left here. An order just now begins it again. */
  async begin(move: PeerMove): Promise<void> {
    await this.#change(move.id, (before) => {
      if (before?.moveId === move.moveId && before.state === 'running') return undefined;
      const deleted = this.#stillDeleted(before);
      const job = leavingJob(move);
      return deleted.length === 0 ? job : { ...job, snapshots: { ...noSnapshots, deleted } };
    });
  }

  /** The other node may have missed it. A snapshot whose deletion has failed may move again. */
  #stillDeleted(before: MoveJob | undefined): NamedSnapshot[] {
    const held = before === undefined ? [] : PoolHeld.all(this.#options.pools.all(), before.id);
    const isHere = (named: NamedSnapshot) => held.some(({ record }) => isOfSnapshot(named, record));
    return (before?.snapshots?.deleted ?? []).filter((named) => !isHere(named));
  }

  /** Asked in a claim of the snapshot, before a step that leaves something here: it may have ended while that waited. @throws MoveEnded */
  requireRunning({ id, moveId, node }: PeerMove): void {
    const job = this.#known.get(id);
    if (job?.moveId === moveId && job.node === node && job.state === 'running') return;
    // Its own disk was lost: a fence for that node says that it was ordered.
    if (job === undefined && this.#admitted.get(id)?.moveId === moveId) return;
    throw over(id);
  }

  async end({ id, moveId }: Pick<PeerMove, 'id' | 'moveId'>, state: 'cancelled' | 'done'): Promise<void> {
    if (this.#admitted.get(id)?.moveId === moveId) this.#admitted.delete(id);
    await this.#change(id, (job) => {
      return job?.moveId === moveId && job.state === 'running' ? endedJob(job, state) : undefined;
    });
    this.#reads.stopAll((read) => read.moveId === moveId);
  }

  /** Durable before a snapshot is removed here that another node has begun to copy: from then on it is not handed over. */
  async removing(id: VolumeId, snapshot: SnapshotId, createdAt: string): Promise<void> {
    await this.#change(id, (before) => {
      const admission = this.#admitted.get(id);
      // Its own disk was lost: a fence says that it was ordered.
      const job = before ?? (admission && leavingJob({ ...admission, id }));
      if (job === undefined || isNamed(job, snapshot, createdAt)) return undefined;
      const deleted = [...(job.snapshots?.deleted ?? []), { id: snapshot, createdAt }];
      return { ...job, snapshots: { ...noSnapshots, deleted } };
    });
  }

  /** True if it was removed here since they follow their volume, or is about to be. */
  isRemoving(id: VolumeId, snapshot: SnapshotId, createdAt: string): boolean {
    const job = this.#known.get(id);
    return job !== undefined && isNamed(job, snapshot, createdAt);
  }

  /** True if one of which there is no copy here was deleted here: another node that has one removes it. */
  async wasRemoved(id: VolumeId, snapshot: SnapshotId, createdAt: string): Promise<boolean> {
    if (this.isRemoving(id, snapshot, createdAt)) return true;
    // It was taken back before, as that node was taken for lost: the note of its generation says it permanently.
    return (await this.#options.pools.anyMoves?.snapshots.wasDeleted(snapshot, createdAt)) === true;
  }

  /** The node that one of them is on its way to; undefined: none. An order that has left nothing here keeps no other one back. */
  async nodeFor(id: VolumeId): Promise<string | undefined> {
    const job = this.#known.get(id);
    // Its own disk was lost: one that was handed over may be there.
    if (job === undefined) return this.#handedOverTo(id);
    if (job.state !== 'running' || job.node === undefined) return undefined;
    return (await this.#hasFence(id, job.node)) ? job.node : undefined;
  }

  async #handedOverTo(id: VolumeId): Promise<string | undefined> {
    for (const held of PoolHeld.all(this.#options.pools.all(), id)) {
      // One whose mark cannot be read stays.
      const { mark, why } = (await held.look().catch(() => undefined)) ?? {};
      if (why === 'given' && mark?.fence?.to !== undefined) return mark.fence.to;
    }
    return undefined;
  }

  /**
   * Ends it at this end alone: no request of the other node hands anything over from then on.
   * @returns undefined: they follow it to no node
   */
  async cancel(id: VolumeId): Promise<CancelledLeaving | undefined> {
    this.#admitted.delete(id);
    let ended: MoveJob | undefined;
    await this.#change(id, (before) => {
      ended = before?.state === 'running' ? before : undefined;
      return ended && endedJob(ended, 'cancelled');
    });
    const job = ended;
    if (job === undefined) return undefined;
    this.#reads.stopAll((read) => read.moveId === job.moveId);
    return { job, takeBack: () => this.#change(id, (now) => ({ ...job, snapshots: now?.snapshots })) };
  }

  /** The other node that it has gone to, as this one has noted. */
  async wentTo(snapshot: SnapshotId): Promise<string | undefined> {
    return (await this.#options.pools.noteOf(snapshot))?.at;
  }

  reading(snapshot: SnapshotId, { moveId }: PeerMove, work: (ended: AbortSignal) => Promise<void>): Promise<void> {
    return this.#reads.during(snapshot, { moveId, isFenced: false }, work);
  }

  /** Before it is removed: nothing of it is open any more. @throws Unavailable if that takes too long */
  endReads(snapshot: SnapshotId): Promise<void> {
    return this.#reads.end(snapshot);
  }

  /** @throws NotFound, Unavailable while a pool is not open that may have it */
  async find(id: VolumeId, snapshot: SnapshotId, createdAt: string): Promise<PoolHeld> {
    const found = await this.copy(id, snapshot, createdAt);
    if (found !== undefined) return found;
    throw new NotFound(`snapshot ${snapshot} is not on this node any more.`);
  }

  /** The copy of a snapshot of that volume: the one that is the snapshot, or else one that was handed over. */
  async copy(id: VolumeId, snapshot: SnapshotId, createdAt: string): Promise<PoolHeld | undefined> {
    const isMeant = ({ record }: PoolHeld) => record.id === snapshot && record.createdAt === createdAt;
    const copies = (await this.all(id)).filter(isMeant);
    for (const copy of copies) {
      const why = (await copy.look())?.why;
      if (why === undefined || why === 'closed') return copy;
    }
    return copies.at(0);
  }

  /** All of the volume, the newest first. @throws Unavailable while a pool is not open that may have more */
  async all(id: VolumeId): Promise<PoolHeld[]> {
    const notOpen = this.#whyNotAllOpen(id);
    if (notOpen !== undefined) throw notOpen;
    return inOrder(PoolHeld.all(this.#options.pools.all(), id));
  }

  /** While a pool is not open, or not found yet, that may have snapshots of the volume. */
  #whyNotAllOpen(id: VolumeId): Unavailable | undefined {
    const { pools } = this.#options;
    if (pools.areAllOpen()) return undefined;
    const closed = pools.firstClosed() ?? 'that is still being looked for';
    return new Unavailable(`pool ${closed} of the first node is not open, and may have snapshots of volume ${id}.`);
  }

  /** @param next the note after that one, which others may have written meanwhile; undefined: that one stands */
  async #change(id: VolumeId, next: (job: MoveJob | undefined) => MoveJob | undefined): Promise<void> {
    await this.#notes.run(id, async () => {
      const job = next(this.#known.get(id));
      if (job === undefined) return;
      await step(job.state === 'running' ? 'move/note' : 'move/forget', () => this.#jobs.write(job));
      this.#jobsById.set(id, job);
    });
  }
}

function leavingJob({ id, moveId, node }: PeerMove): MoveJob {
  return { moveId, id, from: '', to: '', node, startedAt: new Date().toISOString(), state: 'running' };
}

function isNamed({ snapshots }: MoveJob, id: SnapshotId, createdAt: string): boolean {
  return (snapshots?.deleted ?? []).some((each) => isOfSnapshot(each, { id, createdAt }));
}

function over(id: VolumeId): MoveEnded {
  return new MoveEnded(`the snapshots of volume ${id} no longer follow it, by the word of their first node.`);
}
