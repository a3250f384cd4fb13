import { setTimeout as delay } from 'node:timers/promises';
import type { Descriptor } from '../kernel/call/descriptor.ts';
import { syncFilesystem } from '../kernel/file/filesystem.ts';
import type { ByteRange } from '../kernel/file/sparse.ts';
import { unstaged } from '../pool/events.ts';
import type { Closed, CopyState, PoolMoves } from '../pool/moves.ts';
import type { Pool } from '../pool/pool.ts';
import type { Pools } from '../pool/pools.ts';
import { storedBytes } from '../volume/encryption.ts';
import { Aborted, FailedPrecondition, NotFound, ResourceExhausted, Unavailable } from '../volume/errors.ts';
import type { ObjectQueue } from '../volume/flow/object-queue.ts';
import { withTimeout } from '../volume/flow/with-timeout.ts';
import type { SnapshotId, VolumeId } from '../volume/id.ts';
import type { Answer, Arrived, Fence, Request } from '../volume/move/rule.ts';
import type { VolumeRecord } from '../volume/record.ts';
import { larger } from '../volume/size.ts';
import { bytesIn, dataRanges, type Piece, piecesAhead } from './copy.ts';
import type { MoveJob } from './job.ts';
import { packTree, treeEndBytes } from './tree/pack.ts';
import type { TreePlace } from './tree/progress.ts';
import { hasMoreThanItsSize } from './tree/room.ts';

/** The volume at its source, as it is now. */
export interface SourceSight {
  readonly record: VolumeRecord;
  readonly state: CopyState;
  readonly isUsed: boolean;
  /** False: it is copied while it is not in use. */
  readonly hasChanges: boolean;
}

/** A volume before it moves. */
export interface SourcePlan extends SourceSight {
  readonly pool: string;
  readonly usedBytes: bigint;
  /** The number of its snapshots. */
  readonly snapshots: number;
}

export interface ReadRequest {
  /** The snapshot that is read, and the one whose content is at the target; undefined: the volume itself, which is fenced. */
  readonly of: { readonly base: SnapshotId | undefined; readonly target: SnapshotId } | undefined;
  /** An earlier try was cut short there. */
  readonly fromBytes: bigint;
  /** The place in a tree. */
  readonly place?: TreePlace | undefined;
  readonly signal: AbortSignal;
}

/** The content of a source, or the blocks that have changed of it. */
export interface Reading extends AsyncDisposable {
  /** The record of the volume now, which may have grown since the snapshot. */
  readonly record: VolumeRecord;
  /** The end of the snapshot or volume that is read. */
  readonly endBytes: bigint;
  /** The number of bytes in all pieces. */
  readonly totalBytes: bigint;
  readonly pieces: AsyncIterable<Piece>;
}

/**
 * The source of a move: a pool of this node, or another node. Its part of the rule (`volume/move/rule.ts`) is done where
 * the copy is; each method may be called again when its answer was lost.
 */
export interface MoveSource {
  /** For messages. */
  readonly title: string;
  /** The other node; undefined: it is on this one. */
  readonly node: string | undefined;
  /**
   * @param idleWithinMs looks when its use ends, or after that time; 0: at once
   * @returns undefined: the volume is not there any more
   */
  look(idleWithinMs?: number): Promise<SourceSight | undefined>;
  /** Before the copy that has come goes for the one there, which is the volume, or becomes it. @throws DataLoss if that lacks data */
  verified(): Promise<unknown>;
  describe(): Promise<SourcePlan | undefined>;
  hasSnapshot(id: SnapshotId): Promise<boolean>;
  /** It may be there already. @throws SourceFull */
  takeSnapshot(id: SnapshotId): Promise<void>;
  removeSnapshot(id: SnapshotId): Promise<void>;
  /** All that the move has taken. */
  removeSnapshots(): Promise<void>;
  /** @returns undefined while it is in use */
  close(fence: Pick<Fence, 'fenceId' | 'moveId'>): Promise<Closed | undefined>;
  /** Ends the fence of the move, if it stands. @throws FailedPrecondition if it may have been handed over */
  open(): Promise<void>;
  read(request: ReadRequest): Promise<Reading>;
  /** Hands the volume over, has the target commit, and puts the copy into the trash. */
  handOver(request: Request, commit: (answer: Answer) => Promise<void>): Promise<void>;
  settle(arrived: Arrived): Promise<void>;
  /** The volume was handed over, and its target has given it up. @param word of the target (`PoolMoves.disclaim`) */
  takeBack(word: number): Promise<void>;
}

/** The other node cannot be reached, or lets this one not in yet: the controller brings them together. */
export class NotConnected extends Unavailable {}

/** The copy at the source of a move that has ended there. Its disk may be lost since, or an earlier one. */
export interface LeftAtSource {
  /** undefined: it has no copy, or that is not known. */
  readonly state: CopyState | undefined;
  /** The volume was deleted there. */
  readonly isDeleted: boolean;
}

/** The move was ended at its source. */
export class MoveEnded extends FailedPrecondition {
  readonly left: LeftAtSource | undefined;

  /** @param left undefined: it does not say */
  constructor(message: string, left?: LeftAtSource) {
    super(message);
    this.left = left;
  }
}

/** The node that has the volume knows nothing of the move. It has to be ordered again, unless the volume has arrived. */
export class MoveForgotten extends MoveEnded {}

/** The pool that the volume leaves has no room for a snapshot of it. */
export class SourceFull extends Error {}

/** The pause before a call is tried again that others for the volume have come before. */
const turnMs = 1_000;

/** The names of the snapshots that a move takes begin with this and its id. */
export function moveSnapshotName(moveId: string): string {
  return `move ${moveId} `;
}

/** The snapshots that a move has taken. */
export async function removeSnapshots(
  pool: Pool,
  { id, moveId }: { readonly id: VolumeId; readonly moveId: string },
): Promise<void> {
  const snapshots = await pool.listSnapshots(undefined, undefined, id);
  for (const { id: snapshotId, name } of snapshots) {
    if (name.startsWith(moveSnapshotName(moveId))) await pool.removeSnapshot(snapshotId);
  }
}

/**
 * Ends the fence of a move that was given up while the pool which the volume leaves was away, and removes the snapshots that it has taken. A copy
 * that was handed over stays so. The caller has claimed the volume.
 */
export async function leaveNothing(
  pool: Pool,
  { id, moveId }: { readonly id: VolumeId; readonly moveId: string },
): Promise<void> {
  if ((await pool.find(id)) === undefined) return;
  const moves = movesOf(pool);
  const { mark, why } = await moves.stateOf(id);
  if (why === 'closed' && mark.fence?.moveId === moveId) await moves.open(id, moveId);
  await removeSnapshots(pool, { id, moveId });
}

/** The pool that a volume leaves is no pool of its node any more, or its disk is not there. */
export class PoolAway extends Unavailable {}

/**
 * The pool that a volume leaves.
 * @throws Unavailable while it is not open, and also if it is no pool of the node any more: it may have handed the volume over
 */
export function leftPool(pools: Pools, { from, id }: Pick<MoveJob, 'from' | 'id'>): Pool {
  if (pools.names().includes(from)) return pools.get(from);
  throw new PoolAway(
    `pool ${from}, which volume ${id} leaves, is not in the configuration of its node, or its disk is not there: the move goes on once it is.`,
  );
}

/** @throws FailedPrecondition */
export function movesOf({ kind, moves, name }: Pool): PoolMoves {
  if (moves !== undefined) return moves;
  throw new FailedPrecondition(
    `pool ${name} (${kind}) moves no volumes to other pools, nor from there (docs/move.md).`,
  );
}

/** Takes turns with the calls of others for the volume, which come first. */
export async function patiently<T>(
  { objects, signal }: { readonly objects: ObjectQueue; readonly signal: AbortSignal },
  claims: readonly string[],
  work: () => Promise<T>,
): Promise<T> {
  for (;;) {
    try {
      return await objects.claim(
        claims.map((object) => ({ object })),
        'a move',
        work,
      );
    } catch (error) {
      if (!(error instanceof Aborted)) throw error;
      // The call that has it is named, not the end of the wait.
      await delay(turnMs, undefined, { signal }).catch(() => Promise.reject(error));
    }
  }
}

export interface PoolSourceParts {
  readonly pool: Pool;
  readonly id: VolumeId;
  readonly moveId: string;
  /** The node that the volume moves to; undefined: it stays on this one. */
  readonly to?: string | undefined;
  readonly objects: ObjectQueue;
  readonly signal: AbortSignal;
  /** Asked before the move leaves a fence or a snapshot: it may have ended while that waited for others. */
  readonly requireRunning?: (() => void) | undefined;
}

/** A pool of this node that a volume leaves. */
export class PoolSource implements MoveSource {
  readonly node = undefined;
  readonly #parts: PoolSourceParts;
  readonly #moves: PoolMoves;

  /** @throws FailedPrecondition if the pool moves nothing */
  constructor(parts: PoolSourceParts) {
    this.#parts = parts;
    this.#moves = movesOf(parts.pool);
  }

  get title(): string {
    return `pool ${this.#parts.pool.name}`;
  }

  async look(idleWithinMs = 0): Promise<SourceSight | undefined> {
    const { id, pool } = this.#parts;
    if (idleWithinMs > 0) await this.#endOfUse(idleWithinMs);
    const record = await pool.find(id);
    if (record === undefined) return undefined;
    const [state, isUsed] = await Promise.all([this.#moves.stateOf(id), this.#isUsed()]);
    return { record, state, isUsed, hasChanges: this.#moves.hasChanges };
  }

  verified(): Promise<void> {
    return this.#moves.verified(this.#parts.id);
  }

  async describe(): Promise<SourcePlan | undefined> {
    const { id, pool } = this.#parts;
    const sight = await this.look();
    if (sight === undefined) return undefined;
    const snapshots = await pool.listSnapshots(undefined, undefined, id);
    let usedBytes = await this.#usedBytes();
    if (hasMoreThanItsSize(sight.record, usedBytes)) {
      // Files may have been removed since it was counted.
      await this.#moves.recount(id);
      usedBytes = await this.#usedBytes();
    }
    return { ...sight, pool: pool.name, usedBytes, snapshots: snapshots.length };
  }

  async hasSnapshot(id: SnapshotId): Promise<boolean> {
    return (await this.#parts.pool.findSnapshot(id)) !== undefined;
  }

  async takeSnapshot(target: SnapshotId): Promise<void> {
    const { id, moveId, pool } = this.#parts;
    if (await this.hasSnapshot(target)) return;
    const spec = { id: target, name: `${moveSnapshotName(moveId)}${target}`, sourceId: id, parameters: {} };
    await patiently(this.#parts, [id, target], async () => {
      this.#parts.requireRunning?.();
      await pool.takeSnapshots([spec]);
    }).catch((error) => {
      throw error instanceof ResourceExhausted ? new SourceFull(error.message) : error;
    });
  }

  /** Only one that the move has taken. */
  async removeSnapshot(id: SnapshotId): Promise<void> {
    const { moveId, pool } = this.#parts;
    const name = (await pool.findSnapshot(id))?.name;
    if (name?.startsWith(moveSnapshotName(moveId)) === true) await pool.removeSnapshot(id);
  }

  removeSnapshots(): Promise<void> {
    return removeSnapshots(this.#parts.pool, this.#parts);
  }

  async close(fence: Pick<Fence, 'fenceId' | 'moveId'>): Promise<Closed | undefined> {
    const { id, to } = this.#parts;
    // Raw blocks of a pod that has ended stay attached: whether they are in use, the fence finds out.
    const { traits } = this.#parts.pool;
    if (traits.detaching === 'automatic' && (await this.#isUsed())) return undefined;
    try {
      const { fenceId, moveId } = fence;
      return await patiently(this.#parts, [id], async () => {
        this.#parts.requireRunning?.();
        return this.#moves.close(id, { moveId, fenceId, ...(to !== undefined && { to }) });
      });
    } catch (error) {
      if (error instanceof FailedPrecondition && (await this.#moves.stateOf(id)).why === undefined) return undefined;
      throw error;
    }
  }

  open(): Promise<void> {
    return patiently(this.#parts, [this.#parts.id], () => this.#open());
  }

  async #open(): Promise<void> {
    const { id, moveId, pool } = this.#parts;
    if ((await pool.find(id)) === undefined) return;
    const { mark } = await this.#moves.stateOf(id);
    if (mark.fence?.moveId === moveId) await this.#moves.open(id, moveId);
  }

  /** Ends the move here: nothing of it is left, and no late request comes between that and the note of it. */
  giveUp<T>(note: () => Promise<T>): Promise<T> {
    return patiently(this.#parts, [this.#parts.id], async () => {
      await this.#open();
      await this.removeSnapshots();
      return note();
    });
  }

  /**
   * The last thing that a target asks for, also when it gives the move up. An earlier request of it may have waited here, and
   * have left a fence just now.
   * @param note that the move has ended: there is no fence
   */
  removeLast(note: () => Promise<void>): Promise<void> {
    const { id, moveId } = this.#parts;
    return patiently(this.#parts, [id], async () => {
      await this.removeSnapshots();
      const sight = await this.look();
      if (sight === undefined) return;
      const { mark, why } = sight.state;
      if (why === 'closed' && mark.fence?.moveId === moveId) await this.#moves.open(id, moveId);
      else if (mark.fence !== undefined) return;
      await note();
    });
  }

  async read({ fromBytes, of, place, signal }: ReadRequest): Promise<Reading> {
    const { id, pool } = this.#parts;
    const record = await pool.find(id);
    if (record === undefined) throw new NotFound(`volume ${id} is not in pool ${pool.name} any more.`);
    const fenceId = of === undefined ? await this.#requireFence() : undefined;
    if (record.content.type === 'directory') {
      return this.#readTree(record, { fenceId, from: place, signal });
    }
    const { endBytes, from, ranges } = await this.#content(record, of, signal);
    try {
      const totalBytes = await bytesIn(ranges(fromBytes));
      const work = { from, fromQueue: pool.queue, ranges: ranges(fromBytes), endBytes, fromBytes };
      return {
        ...{ record, endBytes, totalBytes, pieces: this.#whileFenced(fenceId, piecesAhead(work)) },
        [Symbol.asyncDispose]: () => from[Symbol.asyncDispose](),
      };
    } catch (error) {
      await from[Symbol.asyncDispose]();
      throw error;
    }
  }

  /**
   * @param fenceId of the only fence that counts; undefined: any one of this move
   * @returns the id of the fence
   * @throws Unavailable if the volume could change meanwhile
   */
  async #requireFence(fenceId?: string): Promise<string> {
    const { id, moveId } = this.#parts;
    const { fence } = (await this.#moves.stateOf(id)).mark;
    if (fence?.moveId === moveId && (fenceId ?? fence.fenceId) === fence.fenceId) return fence.fenceId;
    throw new Unavailable(`the fence of volume ${id} has ended: it is copied once it stands again.`);
  }

  /** The fence may end while the volume is read: its target, which was silent, may come back just then. */
  async *#whileFenced(fenceId: string | undefined, pieces: AsyncIterable<Piece>): AsyncGenerator<Piece, void, void> {
    yield* pieces;
    if (fenceId !== undefined) await this.#requireFence(fenceId);
  }

  async #readTree(
    record: VolumeRecord,
    {
      fenceId,
      from,
      signal,
    }: { readonly from: TreePlace | undefined; readonly fenceId: string | undefined; readonly signal: AbortSignal },
  ): Promise<Reading> {
    const { pool } = this.#parts;
    const totalBytes = larger(0n, (await this.#usedBytes()) - (from?.atBytes ?? 0n));
    const root = await this.#moves.read(record.id);
    try {
      // A power cut here must not take back bytes that were read: a copy that goes on would have both states.
      await syncFilesystem(pool.queue, root);
    } catch (error) {
      await root[Symbol.asyncDispose]();
      throw error;
    }
    const pieces = this.#whileFenced(fenceId, packTree({ queue: pool.queue, root, from, signal }));
    return {
      ...{ record, endBytes: treeEndBytes, totalBytes, pieces },
      [Symbol.asyncDispose]: () => root[Symbol.asyncDispose](),
    };
  }

  async #usedBytes(): Promise<bigint> {
    const { id, pool } = this.#parts;
    const { volumes } = await pool.usage();
    return volumes.find(({ record }) => record.id === id)?.usedBytes ?? 0n;
  }

  async #content(record: VolumeRecord, of: ReadRequest['of'], signal: AbortSignal): Promise<Content> {
    const { pool } = this.#parts;
    if (of === undefined) {
      const endBytes = storedBytes(record);
      const from = await this.#moves.read(record.id);
      return { from, endBytes, ranges: (fromBytes) => dataRanges(pool.queue, from, fromBytes, endBytes) };
    }
    const { base, target } = of;
    const snapshot = await pool.findSnapshot(target);
    if (snapshot === undefined || snapshot.sourceId !== record.id) {
      throw new NotFound(`The snapshot ${target} of the move of volume ${record.id} is gone.`);
    }
    const ranges = (fromBytes: bigint) => this.#moves.changedRanges({ base, target, fromBytes, signal });
    return { from: await this.#moves.read(target), endBytes: storedBytes(snapshot), ranges };
  }

  async handOver(request: Request, commit: (answer: Answer) => Promise<void>): Promise<void> {
    const { id, moveId } = this.#parts;
    await patiently(this.#parts, [id], async () => {
      const answer = await this.#moves.give(id, request);
      await commit(answer);
      await this.#settle({ moveId, generation: answer.generation });
    });
  }

  /** The part of `handOver` that is the source's. */
  give(request: Request): Promise<Answer> {
    return patiently(this.#parts, [this.#parts.id], () => this.#moves.give(this.#parts.id, request));
  }

  async settle(arrived: Arrived): Promise<void> {
    await patiently(this.#parts, [this.#parts.id], () => this.#settle(arrived));
  }

  /** @throws Unavailable: the move goes on until that copy is gone */
  async #settle(arrived: Arrived): Promise<void> {
    const { id, pool } = this.#parts;
    if (await this.#moves.settle(id, arrived)) return;
    throw new Unavailable(
      `volume ${id} has moved, and its copy in pool ${pool.name} is of another move, or no earlier one: it stays there, and cannot be used. See docs/move.md.`,
    );
  }

  takeBack(word: number): Promise<void> {
    const { id } = this.#parts;
    return patiently(this.#parts, [id], () => this.#moves.takeBack(id, word));
  }

  async #endOfUse(withinMs: number): Promise<void> {
    const { id } = this.#parts;
    const ended = Promise.withResolvers<void>();
    // Before the look, so that no end comes between both.
    using _subscription = unstaged.subscribe(({ volumeId }) => {
      if (volumeId === id) ended.resolve();
    });
    if (await this.#isUsed()) await withTimeout(withinMs, ended.promise);
  }

  async #isUsed(): Promise<boolean> {
    return (await this.#parts.pool.inUse(this.#parts.id)).length > 0;
  }
}

interface Content {
  readonly from: Descriptor;
  readonly endBytes: bigint;
  readonly ranges: (fromBytes: bigint) => AsyncIterable<ByteRange>;
}
