import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import type { PoolLog } from '../../pool/log.ts';
import type { CopyState } from '../../pool/moves.ts';
import type { Pool } from '../../pool/pool.ts';
import type { Pools } from '../../pool/pools.ts';
import { Aborted, FailedPrecondition, HoldfastError, InvalidArgument, Unavailable } from '../../volume/errors.ts';
import type { ObjectQueue } from '../../volume/flow/object-queue.ts';
import { pause } from '../../volume/flow/pause.ts';
import { withTimeout } from '../../volume/flow/with-timeout.ts';
import type { SnapshotId, VolumeId } from '../../volume/id.ts';
import type { SnapshotRecord } from '../../volume/snapshot-record.ts';
import { step } from '../../volume/step.ts';
import { type LostOrder, requireInTime } from '../in-time.ts';
import { endedJob, isLongPast, type LeftSnapshot, type MoveJob, MoveJobs, type SnapshotsOfJob } from '../job.ts';
import { BytesPerSecond } from '../pace.ts';
import { movesOf, patiently } from '../source.ts';
import { DeletedSnapshots } from './deleted-snapshots.ts';
import { LeftCopies } from './left-copies.ts';
import { moveSnapshot, SnapshotArrivedAndGone } from './snapshot-move.ts';
import { type Held, SnapshotSpace } from './snapshot-space.ts';

export interface SnapshotMoverOptions {
  readonly pools: Pools;
  readonly objects: ObjectQueue;
  /** The driver's own directory, HOLDFAST_DATA. */
  readonly dataDirectory: string;
  readonly queue: DiskQueue;
  readonly log: PoolLog;
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
  done: Promise<void>;
}

/** The pause before a snapshot is tried again that was handed over, or whose pool is not open. */
const retryMs = 10_000;
/** The pause before the note of the end is written again. */
const noteRetryMs = 1_000;
/** The time for which a removal waits for the end of a move. */
const removedMs = 10_000;

/**
 * Snapshots that follow their volume to another pool of the node, one after the other and the newest first: so each begins as a
 * clone of the one that is there already and most like it. The volume has moved before, and does not wait for them.
 */
export class SnapshotMover {
  readonly #options: SnapshotMoverOptions;
  readonly #jobs: MoveJobs;
  readonly #deleted: DeletedSnapshots;
  readonly #leftCopies: LeftCopies;
  readonly #runs = new Map<VolumeId, Run>();
  readonly #ended = new Map<VolumeId, SnapshotsJob>();
  #isStopping = false;

  constructor(options: SnapshotMoverOptions) {
    this.#options = options;
    this.#jobs = new MoveJobs(options.dataDirectory, options.queue, 'snapshot-moves');
    this.#deleted = new DeletedSnapshots(options.dataDirectory, options.queue);
    this.#leftCopies = new LeftCopies({ ...options, retryMs, deleted: this.#deleted });
  }

  /** Takes up what a driver before this one has left. The pools are open. */
  async resume(): Promise<void> {
    const { log } = this.#options;
    for (const error of await this.#deleted.read()) log.error({ err: error }, 'the note of a deletion cannot be read');
    const { jobs, problems } = await this.#jobs.read();
    for (const error of problems) log.error({ err: error }, 'the note of a move cannot be read');
    for (const job of jobs) {
      if (this.#isStopping || !isOfSnapshots(job) || this.#runs.has(job.id)) continue;
      if (job.state === 'running') this.#begin(job);
      else if (isLongPast(job)) await this.#jobs.forget(job.id);
      else this.#ended.set(job.id, job);
    }
    if (!this.#isStopping) void this.#leftCopies.remove();
  }

  sights(): SnapshotsSight[] {
    const running = Array.from(this.#runs.values(), ({ job, progress, trouble }) => ({ job, progress, trouble }));
    const ended = [...this.#ended.values()].filter(({ id }) => !this.#runs.has(id));
    return [...running, ...ended.map((job) => ({ job, progress: undefined, trouble: undefined }))];
  }

  /** Nothing is changed. @throws FailedPrecondition if the pool takes no snapshots */
  async plan(id: VolumeId, to: Pool): Promise<SnapshotsPlan> {
    const held = this.#held(id, to.name);
    const [moving, staying] = [[] as Held[], [] as LeftSnapshot[]];
    for (const each of held) {
      const reason = whyStays(each);
      if (reason === undefined) moving.push(each);
      else staying.push(left(each, reason, true));
    }
    // All of one volume are alike: what one of them needs, they all need.
    for (const { record } of moving) movesOf(to).snapshots.requireRoomFor(record);
    const { totalBytes: neededBytes } = await SnapshotSpace.count(moving, movesOf(to).snapshots.unitBytes);
    return { moving: moving.map(({ pool, record }) => ({ record, pool: pool.name })), staying, neededBytes };
  }

  /** The volume is in that pool now. Goes on behind the answer. */
  async launch({ id, limitBytesPerSecond, moveId, to }: MoveJob): Promise<SnapshotsSight> {
    const running = this.#runs.get(id);
    if (running?.job.moveId === moveId) return running;
    if (this.#isStopping) throw new Unavailable('the driver is stopping; try again.');
    running?.ending.abort(new Aborted('another move was ordered.'));
    await running?.done;
    // The order before this one may have left copies in a pool that is not open now.
    const before = (running?.job ?? this.#ended.get(id))?.snapshots.pools ?? [];
    const pools = [...new Set([...this.#held(id, to).map(({ pool }) => pool.name), ...before])];
    const job: SnapshotsJob = {
      ...{ moveId, id, from: pools.join(', '), to, startedAt: new Date().toISOString(), state: 'running' },
      ...(limitBytesPerSecond !== undefined && { limitBytesPerSecond }),
      snapshots: { pools, moved: 0, left: [] },
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
   * @returns undefined if none of this volume is moving
   */
  async cancel(id: VolumeId, lost?: LostOrder): Promise<SnapshotsJob | undefined> {
    const run = this.#runs.get(id);
    const job = run?.job ?? this.#ended.get(id);
    await this.#removeDeleted(id);
    const open = this.#options.pools.all().filter(({ moves }) => moves !== undefined);
    const fenced = await fencedIn(open, id);
    if (run === undefined && fenced.length === 0) return undefined;
    run?.ending.abort(new Aborted('the move was cancelled.'));
    await run?.done;
    try {
      for (const name of job?.snapshots.pools ?? []) this.#requireKnown(name);
      for (const each of await fencedIn(open, id)) await this.#undo(each, lost);
      const startedAt = new Date().toISOString();
      // The run may have noted more of them that have moved.
      const last: SnapshotsJob = run?.job ??
        job ?? {
          ...{ moveId: '', id, from: '', to: '', startedAt, state: 'running' },
          snapshots: { pools: [], moved: 0, left: [] },
        };
      return await this.#end(last, 'cancelled', this.#leftOf(last, 'the move was cancelled.'));
    } catch (error) {
      if (run !== undefined && !this.#runs.has(id)) this.#begin(run.job);
      throw error;
    }
  }

  /**
   * Before a snapshot is removed where it is: no earlier copy of it is left. The caller has claimed it.
   * @returns the work for when it is gone
   * @throws Unavailable while it is being handed over
   */
  async beforeRemoval(id: SnapshotId): Promise<AfterRemoval> {
    const { pools } = this.#options;
    const copies = await copiesOf(pools.all(), id);
    const [first] = copies;
    if (first === undefined) {
      await this.#discardLast(id);
      return nothingLeft;
    }
    const valid = copies.find(({ state }) => isUsable(state));
    if (valid === undefined) {
      throw new Unavailable(
        `snapshot ${id} is being handed over to another pool; try again (see holdfast move status).`,
      );
    }
    const { sourceId } = first.record;
    const run = this.#runs.get(sourceId);
    const { createdAt } = valid.record;
    const { fence, generation } = valid.state.mark;
    const closed = pools.firstClosed();
    // A copy that was left there must not be the snapshot again.
    if (closed !== undefined && generation > 0) await this.#deleted.write({ id, createdAt, generation });
    for (const { pool } of copies) if (pool !== valid.pool) await movesOf(pool).snapshots.removeLeft(id);
    if (run?.current?.id === id) {
      run.current.ending.abort(new Aborted('the snapshot was deleted.'));
      if ((await withTimeout(removedMs, run.current.done)) === 'late') {
        throw new Unavailable(
          `the move of snapshot ${id}, which is about to be deleted, has not ended yet; try again.`,
        );
      }
    }
    if (run === undefined && !this.#ended.has(sourceId) && fence === undefined && generation === 0) return nothingLeft;
    // It has moved, or was about to: nothing that was copied of it stays readable.
    const done = new Set([valid.pool.name]);
    for (const pool of pools.all()) {
      if (pool !== valid.pool) await pool.moves?.snapshots.discard(id);
      done.add(pool.name);
    }
    if (closed !== undefined) void this.#leftCopies.remove();
    const moveId = fence?.moveId;
    if (moveId === undefined || pools.names().every((name) => done.has(name))) return nothingLeft;
    return async () => {
      // Before that it could still be handed over, to the copy in a pool that was not open.
      await this.#deleted.write({ id, createdAt, generation, moveId });
      void this.#leftCopies.remove();
    };
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
  async #discardLast(id: SnapshotId): Promise<void> {
    const { pools } = this.#options;
    if (pools.firstClosed() !== undefined) return;
    for (const { moves } of pools.all()) {
      if ((await moves?.snapshots.arriving())?.includes(id) === true) await moves?.snapshots.discard(id);
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
    const run: Run = { job, progress, ending, current: undefined, trouble: undefined, done: Promise.resolve() };
    this.#ended.delete(job.id);
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
        for (const name of job.snapshots.pools) this.#requireKnown(name);
        const to = this.#options.pools.get(job.to);
        await this.#removeDeleted(job.id);
        if (!isResolved) await this.#resolve(to, job.id);
        isResolved = true;
        const all = this.#held(job.id, job.to);
        const target = movesOf(to).snapshots;
        const moving = all.filter((each) => whyStays(each) === undefined);
        if (space === undefined) {
          space = await SnapshotSpace.count(moving, target.unitBytes, job.snapshots.shares);
          await this.#note(run, { shares: space.shares });
        }
        progress.total = Math.max(progress.total, all.length);
        held = all.find(({ record }) => !passed.has(record.id));
        if (held === undefined) break;
        const isThere = (id: SnapshotId) => target.find(id) !== undefined && !target.isLeft(id);
        await this.#moveOne(run, held, to, space.neededBytes(held.record, isThere));
        await this.#note(run, { moved: run.job.snapshots.moved + 1 });
        run.trouble = undefined;
      } catch (error) {
        if (ending.signal.aborted) return;
        const reason = error instanceof Error ? error.message : String(error);
        if (held !== undefined && !(await isForLater(held, error))) {
          const { id } = held.record;
          if (whyStays(held) === undefined) {
            log.error({ volume_id: job.id, snapshot_id: id, err: error }, 'the move of a snapshot failed');
          }
          passed.set(id, left(held, reason, whyStays(held) !== undefined));
          await this.#giveUp(held, job.to);
          continue;
        }
        if (held === undefined && error instanceof InvalidArgument) {
          await this.#endPatiently(run, 'failed', this.#leftOf(job, reason), reason);
          return;
        }
        if (run.trouble !== reason) {
          log.warn({ volume_id: job.id, reason }, 'the move of snapshots waits, and is tried again');
        }
        run.trouble = reason;
        await pause(retryMs, ending.signal);
      }
    }
    if (ending.signal.aborted) return;
    const isThere = new Set<string>(this.#held(job.id, job.to).map(({ record }) => record.id));
    await this.#endPatiently(
      run,
      'done',
      [...passed.values()].filter(({ id }) => isThere.has(id)),
    );
  }

  async #moveOne(run: Run, { pool, record }: Held, to: Pool, newBytes: bigint): Promise<void> {
    const { log, objects } = this.#options;
    const { job, progress } = run;
    const ending = new AbortController();
    const signal = AbortSignal.any([run.ending.signal, ending.signal]);
    Object.assign(progress, { current: record.name, doneBytes: 0n, totalBytes: 0n });
    const done = moveSnapshot({
      ...{ record, from: pool, to, newBytes, objects, signal },
      pace: new BytesPerSecond(job.limitBytesPerSecond),
      begun: (totalBytes) => {
        progress.totalBytes = totalBytes;
      },
      moved: (bytes) => {
        progress.doneBytes += bytes;
      },
    });
    run.current = { id: record.id, ending, done: done.catch(() => undefined) };
    try {
      await done;
    } finally {
      run.current = undefined;
      progress.current = undefined;
    }
    log.info({ volume_id: job.id, snapshot_id: record.id, from: pool.name, to: to.name }, 'a snapshot has moved');
  }

  /** Without the note a restart shows fewer that have moved, and asks for more room than is needed: neither is a harm. */
  async #note(run: Run, changes: Partial<SnapshotsOfJob>): Promise<void> {
    run.job = { ...run.job, snapshots: { ...run.job.snapshots, ...changes } };
    await this.#jobs.write(run.job).catch(() => undefined);
  }

  /** It can be used where it is, and nothing of the copy is left. */
  async #giveUp(held: Held, to: string): Promise<void> {
    const { id } = held.record;
    try {
      if (held.pool.moves?.snapshots.find(id) !== undefined) return await this.#undo(held);
      // It was removed meanwhile.
      const target = this.#options.pools.get(to);
      if (movesOf(target).snapshots.find(id) === undefined) await movesOf(target).snapshots.discard(id);
    } catch (error) {
      this.#options.log.warn({ snapshot_id: id, err: error }, 'the rest of the move of a snapshot is left');
    }
  }

  /**
   * Ends the rest of an order that sent them elsewhere: fenced copies in the pool that they go to now, and ones that were handed
   * over and have arrived in a third pool.
   */
  async #resolve(to: Pool, id: VolumeId): Promise<void> {
    const open = this.#options.pools.all().filter(({ moves }) => moves !== undefined);
    for (const each of await fencedIn(open, id)) {
      const third = open.filter(({ name }) => name !== to.name && name !== each.pool.name);
      const isElsewhere = (await copiesOf(third, each.record.id)).some(({ state }) => isUsable(state));
      if (each.pool.name === to.name || isElsewhere) await this.#undo(each);
    }
  }

  #undo({ pool, record: { id } }: Held, lost?: LostOrder): Promise<void> {
    const { objects, pools } = this.#options;
    const source = movesOf(pool).snapshots;
    return patiently({ objects, signal: AbortSignal.timeout(removedMs) }, [id], async () => {
      const { mark, why } = await source.stateOf(id);
      const others = pools.all().filter((other) => other.name !== pool.name && other.moves !== undefined);
      for (const other of others) {
        const there = movesOf(other).snapshots;
        if ((await there.settled(id)) === undefined) {
          await there.discard(id);
          continue;
        }
        if (!(await source.settle(id, (await there.stateOf(id)).mark.generation))) {
          throw new FailedPrecondition(
            `snapshot ${id} is in pool ${other.name} and in pool ${pool.name}: look at both.`,
          );
        }
        return;
      }
      if (why === 'given') {
        // A pool that is not open may have it.
        const closed = pools.firstClosed();
        if (closed !== undefined) this.#requireKnown(closed);
        requireInTime(id, lost?.deadline);
        await source.takeBack(id, lost);
      } else if (mark.fence !== undefined) await source.open(id);
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
        run.trouble = `its end cannot be noted: ${error instanceof Error ? error.message : String(error)}`;
        this.#options.log.warn({ volume_id: job.id, err: error }, 'the end of a move cannot be noted');
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
    const snapshots = { ...counted, left: leftOnes };
    const ended = { ...endedJob(job, state, reason), snapshots };
    await step('move/forget', () => this.#jobs.write(ended));
    this.#ended.set(job.id, ended);
    void this.#leftCopies.remove();
    return ended;
  }

  #leftOf({ id, to }: MoveJob, reason: string): LeftSnapshot[] {
    return this.#held(id, to).map((each) => left(each, whyStays(each) ?? reason, whyStays(each) !== undefined));
  }

  /** The snapshots of the volume in all other open pools, the newest first. */
  #held(id: VolumeId, to: string): Held[] {
    const others = this.#options.pools.all().filter(({ moves, name }) => name !== to && moves !== undefined);
    return others
      .flatMap((pool) =>
        movesOf(pool)
          .snapshots.all(id)
          .map((record) => ({ pool, record })),
      )
      .filter(({ record }) => !isOfMove(record))
      .sort((a, b) => b.record.createdAt.localeCompare(a.record.createdAt));
  }

  /** @throws Unavailable while the pool is not open; one that is not in the configuration any more has nothing */
  #requireKnown(name: string): void {
    const { pools } = this.#options;
    if (pools.names().includes(name)) pools.get(name);
  }
}

/** Work for when a snapshot is gone. */
export type AfterRemoval = () => Promise<void>;

const nothingLeft: AfterRemoval = async () => undefined;

/** True if the snapshots of a volume move, and it does not. */
export function isOfSnapshots(job: MoveJob): job is SnapshotsJob {
  return job.snapshots !== undefined;
}

/** One that a move has taken for its own ends (`moveSnapshotName`). */
function isOfMove({ id, name }: SnapshotRecord): boolean {
  return name.startsWith('move ') && name.endsWith(` ${id}`);
}

function whyStays({ pool, record }: Held): string | undefined {
  try {
    movesOf(pool).snapshots.requireMovable(record);
    return undefined;
  } catch (error) {
    if (error instanceof HoldfastError) return error.message;
    throw error;
  }
}

function left({ pool, record: { id, name } }: Held, reason: string, stays: boolean): LeftSnapshot {
  return { id, name, pool: pool.name, reason, stays };
}

/** True if a pool is not open, or the snapshot was handed over: only its end makes it available again. */
async function isForLater({ pool, record }: Held, error: unknown): Promise<boolean> {
  if (error instanceof Unavailable) return true;
  if (error instanceof SnapshotArrivedAndGone) return false;
  const source = pool.moves?.snapshots;
  if (source?.find(record.id) === undefined) return false;
  // One whose mark cannot be read stays, and keeps none of the others.
  return (await source.stateOf(record.id).catch(() => undefined))?.why === 'given';
}

interface Copy extends Held {
  readonly state: CopyState;
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
async function fencedIn(pools: readonly Pool[], id: VolumeId): Promise<Held[]> {
  const fenced: Held[] = [];
  for (const pool of pools) {
    for (const record of movesOf(pool).snapshots.all(id)) {
      const state = await movesOf(pool)
        .snapshots.stateOf(record.id)
        .catch(() => undefined);
      if (state?.mark.fence !== undefined) fenced.push({ pool, record });
    }
  }
  return fenced;
}
