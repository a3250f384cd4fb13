import type { CopyState, PoolMoves } from '../../pool/moves.ts';
import type { Pool } from '../../pool/pool.ts';
import { storedBytes } from '../../volume/encryption.ts';
import { HoldfastError, Unavailable } from '../../volume/errors.ts';
import type { SnapshotId, VolumeId } from '../../volume/id.ts';
import {
  type Answer,
  type CopyMark,
  type Fence,
  type LostNode,
  type Request,
  whereElse,
} from '../../volume/move/rule.ts';
import type { SnapshotRecord } from '../../volume/snapshot-record.ts';
import { bytesIn, dataRanges, type Piece, piecesAhead } from '../copy.ts';
import type { MoveJob } from '../job.ts';
import { movesOf } from '../source.ts';
import { type ShareBytes, shareIn } from './share.ts';

/** The content of a snapshot. */
export interface HeldReading extends AsyncDisposable {
  readonly endBytes: bigint;
  /** The number of bytes in all pieces. */
  readonly totalBytes: bigint;
  readonly pieces: AsyncIterable<Piece>;
}

/**
 * A copy of a snapshot that is not where its volume is: in another pool of this node, or on another node. Its part of the rule
 * (`volume/move/rule.ts`) is done where the copy is. Each method may be called again when its answer was lost. The caller has claimed the
 * snapshot on this node.
 */
export interface Held {
  readonly record: SnapshotRecord;
  readonly pool: string;
  /** The other node; undefined: it is on this one. */
  readonly node: string | undefined;
  /** The reason why it never moves; undefined: it does. */
  readonly whyStays: string | undefined;
  /** Its pool can tell changed blocks. */
  readonly hasChanges: boolean;
  /** @returns undefined if it is gone, or another one was taken under its name */
  look(): Promise<CopyState | undefined>;
  /** The same, before another copy goes for this one. @throws DataLoss if not all of its data is there */
  verified(): Promise<CopyState | undefined>;
  /** The space that it may take in units of that size. @param beside a later snapshot of its pool, with which it shares blocks */
  share(beside: SnapshotId | undefined, unitBytes: bigint): Promise<ShareBytes>;
  /**
   * Fences it for a move to that pool of this node.
   * @throws Unavailable if another one was taken under its name
   */
  close(to: string): Promise<Fence>;
  /** Ends the fence of a move that was given up. @throws FailedPrecondition if it may have been handed over */
  open(): Promise<void>;
  /** @param fromBytes an earlier try was cut short there */
  read(fence: Fence, fromBytes: bigint, signal: AbortSignal): Promise<HeldReading>;
  give(request: Request): Promise<Answer>;
  /** It is here now: the copy goes. Not there is fine. @returns false if a copy stays that is no earlier one */
  settle(generation: number): Promise<boolean>;
  /** @param word that it is not here (`PoolSnapshotMoves.disclaim`), or that the other node is lost */
  takeBack(word?: number | LostNode): Promise<void>;
}

/** Another node that has snapshots of a volume. */
export interface OtherNode {
  readonly node: string;
  /** Notes there that they follow their volume: this node may take them, also after a restart of either. */
  begin(): Promise<void>;
  /** They do no longer. */
  end(state: 'cancelled' | 'done'): Promise<void>;
  /** The copies there, also those that were handed over, the newest first. @throws Unavailable unless all are known */
  all(): Promise<Held[]>;
  /** The copy there, also once the move has ended; undefined: there is none. */
  look(id: SnapshotId, createdAt: string): Promise<CopyState | undefined>;
  /** The same, before the copy here goes for it. @throws DataLoss if not all of its data is there */
  verified(id: SnapshotId, createdAt: string): Promise<CopyState | undefined>;
  /** True if it was deleted there while it was copied, and is not the last copy here. */
  wasDeleted(id: SnapshotId, createdAt: string): Promise<boolean>;
}

/** The end of an order that snapshots of this node follow their volume to another one. */
export interface CancelledLeaving {
  readonly job: MoveJob;
  /** They follow their volume again. */
  takeBack(): Promise<void>;
}

/** A copy in a pool of this node. */
export class PoolHeld implements Held {
  readonly node = undefined;
  readonly record: SnapshotRecord;
  readonly #pool: Pool;
  readonly #moves: PoolMoves;

  /** @throws FailedPrecondition if the pool moves nothing */
  constructor(pool: Pool, record: SnapshotRecord) {
    this.record = record;
    this.#pool = pool;
    this.#moves = movesOf(pool);
  }

  /** All copies of snapshots of the volume in these pools, also those that were handed over. */
  static all(pools: readonly Pool[], id: VolumeId): PoolHeld[] {
    return pools
      .filter(({ moves }) => moves !== undefined)
      .flatMap((pool) =>
        movesOf(pool)
          .snapshots.all(id)
          .map((record) => new PoolHeld(pool, record)),
      );
  }

  get pool(): string {
    return this.#pool.name;
  }

  get whyStays(): string | undefined {
    try {
      this.#moves.snapshots.requireMovable(this.record);
      return undefined;
    } catch (error) {
      if (error instanceof HoldfastError) return error.message;
      throw error;
    }
  }

  get hasChanges(): boolean {
    return this.#moves.hasChanges;
  }

  async look(): Promise<CopyState | undefined> {
    const { createdAt, id } = this.record;
    const now = await this.#moves.snapshots.settled(id);
    return now?.createdAt === createdAt ? this.#moves.snapshots.stateOf(id) : undefined;
  }

  async verified(): Promise<CopyState | undefined> {
    const state = await this.look();
    if (state !== undefined) await this.#moves.snapshots.verified(this.record.id);
    return state;
  }

  /** The other node that may have the snapshot, if this copy is that no more. */
  async whereElse(mark: CopyMark): Promise<string | undefined> {
    return whereElse(mark, await this.#moves.snapshots.noted(this.record.id));
  }

  share(beside: SnapshotId | undefined, unitBytes: bigint): Promise<ShareBytes> {
    return shareIn(this.#pool, { record: this.record, beside, unitBytes });
  }

  async close(to: string, node?: string): Promise<Fence> {
    const { createdAt, id } = this.record;
    const { snapshots } = this.#moves;
    snapshots.requireMovable(this.record);
    // Another one may have been taken under its name since this one was found.
    const now = await snapshots.settled(id);
    if (now !== undefined && now.createdAt !== createdAt) {
      throw new Unavailable(`snapshot ${id} is another one by now: it moves in the next try.`);
    }
    return snapshots.close(id, to, node);
  }

  open(): Promise<void> {
    return this.#moves.snapshots.open(this.record.id);
  }

  async read(_fence: Fence, fromBytes: bigint): Promise<HeldReading> {
    const endBytes = storedBytes(this.record);
    const { queue } = this.#pool;
    const file = await this.#moves.snapshots.read(this.record.id);
    const ranges = () => dataRanges(queue, file, fromBytes, endBytes);
    try {
      const totalBytes = await bytesIn(ranges());
      const pieces = piecesAhead({ from: file, fromQueue: queue, ranges: ranges(), endBytes, fromBytes });
      return { endBytes, totalBytes, pieces, [Symbol.asyncDispose]: () => file[Symbol.asyncDispose]() };
    } catch (error) {
      await file[Symbol.asyncDispose]();
      throw error;
    }
  }

  give(request: Request): Promise<Answer> {
    return this.#moves.snapshots.give(this.record.id, request);
  }

  settle(generation: number): Promise<boolean> {
    return this.#moves.snapshots.settle(this.record.id, generation);
  }

  takeBack(word?: number | LostNode): Promise<void> {
    return this.#moves.snapshots.takeBack(this.record.id, word);
  }
}

/** One that a move has taken for its own ends (`moveSnapshotName`). */
export function isOfMove({ id, name }: SnapshotRecord): boolean {
  return name.startsWith('move ') && name.endsWith(` ${id}`);
}

/** Without those that moves have taken, the newest first. */
export function inOrder<T extends Pick<Held, 'record'>>(held: readonly T[]): T[] {
  return held
    .filter(({ record }) => !isOfMove(record))
    .sort((a, b) => b.record.createdAt.localeCompare(a.record.createdAt));
}

/** For messages. */
export function placeOf({ node, pool }: Pick<Held, 'node' | 'pool'>): string {
  return node === undefined ? `pool ${pool}` : `pool ${pool} of node ${node}`;
}
