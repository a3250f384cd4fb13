import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import { isErrno } from '../kernel/call/errno.ts';
import { explainFull } from '../pool/catalog/full.ts';
import type { Closed, Incoming, PoolMoves } from '../pool/moves.ts';
import type { Pool } from '../pool/pool.ts';
import type { Pools } from '../pool/pools.ts';
import { storedBytes } from '../volume/encryption.ts';
import { AlreadyExists, DataLoss, FailedPrecondition, NotFound, ResourceExhausted } from '../volume/errors.ts';
import type { ObjectQueue } from '../volume/flow/object-queue.ts';
import { parseSnapshotId, type SnapshotId, snapshotIdFor } from '../volume/id.ts';
import type { CopyMark } from '../volume/move/rule.ts';
import { parseJsonInput } from '../volume/parse-input.ts';
import type { VolumeRecord } from '../volume/record.ts';
import { hasArrived } from './copies.ts';
import { type CopyWork, copyRanges, type Pace } from './copy.ts';
import { arrivalOf, type MoveJob, type WholeCopy } from './job.ts';
import { KeepUp } from './keep-up.ts';
import {
  MoveForgotten,
  type MoveSource,
  movesOf,
  patiently,
  type ReadRequest,
  SourceFull,
  type SourceSight,
} from './source.ts';
import { switched } from './switched.ts';
import { treeEndBytes } from './tree/pack.ts';
import {
  isShort,
  OtherTree,
  placeIn,
  progressOut,
  type Reached,
  storedProgress,
  type TreeProgress,
} from './tree/progress.ts';
import { moreThanItsSize } from './tree/room.ts';
import { unpackTree } from './tree/unpack.ts';

export const movePhases = ['copying', 'waiting', 'switching'] as const;

/** The progress of a move, for people. */
export interface MoveProgress {
  phase: (typeof movePhases)[number];
  /** Counted from 1; 0: nothing is copied yet. */
  round: number;
  /** Bytes of this round. */
  doneBytes: bigint;
  totalBytes: bigint;
  /** Bytes of all rounds that this process has done. */
  copiedBytes: bigint;
  /** performance.now() at the beginning of the round. */
  roundStartedMs: number;
  /** The furthest place of a tree. */
  readonly reached: Reached;
}

export interface MovingParts {
  readonly job: MoveJob;
  readonly source: MoveSource;
  readonly pools: Pools;
  readonly objects: ObjectQueue;
  readonly pace: Pace;
  readonly progress: MoveProgress;
  readonly signal: AbortSignal;
  /** Notes the copy before it is handed over: without its source nothing else would tell which volume it is. */
  readonly whole: (copy: WholeCopy) => Promise<void>;
  /** Within a node: notes that the volume has come, before the source hears of it. Nothing else says so once the target's disk is away. */
  readonly arrived: (copy: CopyMark) => Promise<void>;
  /** Hears what the source says of the volume: a copy that has come as a whole may be an earlier state of it by now. */
  readonly looked: (sight: SourceSight) => Promise<void>;
  /** The smallest distance between two rounds of a volume that stays in use (`KeepUp`). */
  readonly keepUpMs?: number | undefined;
}

/** A round with less than that is short enough: the next one is done while the volume is not in use. */
const shortBytes = 64n << 20n;
/** A volume that is written to faster than it is copied never has a short round. */
const maxRounds = 10;
/** The time between two looks whether the volume is still in use, unless the source says before that its use has ended. */
const idlePollMs = 1_000;

/** The content of the target, as it is noted beside it: durable only after the bytes are. */
interface Content {
  /** All of this snapshot. */
  readonly base?: SnapshotId | undefined;
  /** This one from the beginning to the offset, over the base; undefined while it is read from the volume itself. */
  readonly target?: SnapshotId | undefined;
  readonly offsetBytes: bigint;
  /** The fence under which that is read. */
  readonly fenceId?: string | undefined;
  /** The part of a tree that has come under that fence. */
  readonly tree?: TreeProgress | undefined;
  /** The fence under which all was read. */
  readonly readUnder?: string | undefined;
}

const nothing: Content = { offsetBytes: 0n };

const storedContent = z.strictObject({
  base: z.string().optional(),
  target: z.string().optional(),
  offsetBytes: z.string().regex(/^[0-9]{1,19}$/),
  fenceId: z.string().optional(),
  tree: storedProgress.optional(),
  readUnder: z.string().optional(),
});

/** The target of a volume that was handed over has neither the volume nor the copy that waits for it. */
export class ArrivedAndGone extends FailedPrecondition {}

/** One move into a pool of this node, resumed wherever an earlier try has come to. */
export class Moving {
  readonly #parts: MovingParts;
  readonly #source: MoveSource;
  readonly #target: Pool;
  readonly #to: PoolMoves;
  #hasChanges = false;
  #content: Content = nothing;
  /** The source has no room for snapshots: as much as the volume may write meanwhile. So it is copied while it is not in use. */
  #isTooFull = false;

  /** @throws Unavailable, InvalidArgument, FailedPrecondition: a pool cannot be used now, or moves nothing */
  constructor(parts: MovingParts) {
    const { job, pools, source } = parts;
    this.#parts = parts;
    this.#source = source;
    this.#target = pools.get(job.to);
    this.#to = movesOf(this.#target);
  }

  async run(): Promise<void> {
    const { id } = this.#parts.job;
    if (!(await hasArrived(this.#target, id))) {
      await this.#move();
      await this.#source.removeSnapshots();
      return;
    }
    try {
      await this.#noteArrival();
      await this.#settle();
      await this.#source.removeSnapshots();
    } catch (error) {
      // It has forgotten the end of the move, and has nothing of the volume that it knows of.
      if (!(error instanceof MoveForgotten)) throw error;
    }
  }

  async #move(): Promise<void> {
    const { id, moveId } = this.#parts.job;
    const sight = await this.#source.look();
    if (sight === undefined) throw new NotFound(`volume ${id} is not in ${this.#source.title} any more.`);
    await this.#parts.looked(sight);
    const { hasChanges, record, state } = sight;
    const { mark, why } = state;
    this.#hasChanges = hasChanges;
    const isFenced = mark.fence?.moveId === moveId;
    if (why !== undefined && !isFenced) throw unusable(id, this.#source.title);
    if (why === 'given' && (await this.#hasGoneOn(mark))) return;
    if (why === 'given') this.#requireNotCome(mark);
    if (why !== 'given') await this.#to.requireNotPast(id, mark);
    const fenceId = isFenced ? mark.fence?.fenceId : undefined;
    await this.#leaveEarlier(mark);
    let incoming = await (why === 'given' ? this.#receiveGiven(record, fenceId) : this.#receive(record, fenceId));
    try {
      if (!isFenced && this.#takesSnapshots) await this.#rounds(incoming).catch((error) => this.#passOverFull(error));
      const closed = await this.#closeWhenIdle(incoming);
      const at = new Date().toISOString();
      if (!(await this.#canResume(closed.fenceId))) {
        incoming = await this.#startAgain(incoming, record);
      }
      try {
        await this.#finalRound(incoming, closed);
      } catch (error) {
        if (!(error instanceof OtherTree)) this.#passOverFull(error);
        incoming = await this.#startAgain(incoming, record);
        await this.#finalRound(incoming, closed);
      }
      await this.#switch(incoming, { ...closed, at }, mark);
    } finally {
      await incoming[Symbol.asyncDispose]();
    }
  }

  /** The volume has arrived here, and gone on, before the source heard of it: that one has an earlier copy. */
  async #hasGoneOn(given: CopyMark): Promise<boolean> {
    const { id, moveId } = this.#parts.job;
    // The commit takes away the copy that waits for the hand-over: the volume has not arrived while that is there.
    if (readUnderBy(await this.#to.comingNote(id)) !== undefined) return false;
    const { node } = this.#source;
    const generation = node === undefined ? undefined : await this.#to.goneOn(id, given, node);
    if (generation === undefined) return false;
    await this.#source.settle({ moveId, generation });
    return true;
  }

  /** @throws ArrivedAndGone if the disk of the target is as it was before the commit, or another one: what waits there has nothing that was written since */
  #requireNotCome(given: CopyMark): void {
    const { id } = this.#parts.job;
    const arrivedAt = arrivalOf(this.#parts.job, given);
    if (arrivedAt === undefined) return;
    const { name } = this.#target;
    throw new ArrivedAndGone(
      `volume ${id} had come to pool ${name} at ${arrivedAt}, and the disk of that pool has an earlier state now, or is another one. Put the later disk back. If it is lost, holdfast move cancel ${id} --even-so makes the copy in ${this.#source.title} the volume again, as it was when it was handed over.`,
    );
  }

  /** An earlier copy in the target, whose disk was put back, goes to the trash. */
  async #leaveEarlier({ generation }: CopyMark): Promise<void> {
    const { id } = this.#parts.job;
    if ((await this.#target.find(id)) === undefined) return;
    await patiently(this.#parts, [id], async () => {
      const { mark } = await this.#to.stateOf(id);
      await this.#to.settle(id, { moveId: mark.fence?.moveId ?? '', generation });
    });
  }

  get #takesSnapshots(): boolean {
    return this.#hasChanges && !this.#isTooFull;
  }

  /** @throws the error, unless it says that no snapshot can be taken */
  #passOverFull(error: unknown): undefined {
    if (!(error instanceof SourceFull)) throw error;
    this.#isTooFull = true;
    return undefined;
  }

  /** @param fenceId of the fence of an earlier try, if it still stands */
  async #receive(record: VolumeRecord, fenceId: string | undefined): Promise<Incoming> {
    const shape = await this.#to.recordFor(record);
    const incoming = await this.#to.receive(shape, this.#parts.job.moveId);
    if (incoming.isNew) return this.#begin(incoming);
    try {
      const content = parseContent(incoming.noted);
      this.#content = content ?? nothing;
      const { fenceId: readingUnder, tree } = this.#content;
      // Nothing of it has been compared.
      const isNewTree = incoming.kind === 'tree' && readingUnder !== undefined && tree === undefined;
      if (content !== undefined && !isNewTree && (await this.#canResume(fenceId))) return incoming;
    } catch (error) {
      await incoming[Symbol.asyncDispose]();
      throw error;
    }
    return this.#startAgain(incoming, record);
  }

  /** Takes up the very copy that waits for the hand-over. Without it the volume has been at its target, or was lost there. */
  async #receiveGiven(record: VolumeRecord, fenceId: string | undefined): Promise<Incoming> {
    const { id, moveId } = this.#parts.job;
    const incoming = await this.#to.receive(await this.#to.recordFor(record), moveId, true);
    const content = incoming.isNew ? undefined : parseContent(incoming.noted);
    if (content !== undefined && content.readUnder === fenceId) {
      this.#content = content;
      return incoming;
    }
    await incoming[Symbol.asyncDispose]();
    if (incoming.isNew) await this.#to.discard(id);
    const { node, title } = this.#source;
    const order = node === undefined ? `holdfast move cancel ${id} --even-so` : `kubectl holdfast move cancel ${id}`;
    const second = node === undefined ? '' : '; with --even-so, if this node has noted that the volume had come';
    throw new ArrivedAndGone(
      `volume ${id} was handed over to pool ${this.#target.name}, which has no copy of it any more: it was deleted there, or the disk was lost. Nothing was copied again. ${order} makes the copy in ${title} the volume again, as it was when it was handed over${second}.`,
    );
  }

  async #begin(incoming: Incoming): Promise<Incoming> {
    try {
      await this.#note(incoming, nothing);
      return incoming;
    } catch (error) {
      await incoming[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** Nothing of the earlier data is left. */
  async #startAgain(incoming: Incoming, record: VolumeRecord): Promise<Incoming> {
    const { id, moveId } = this.#parts.job;
    await incoming[Symbol.asyncDispose]();
    await this.#to.discard(id);
    return this.#begin(await this.#to.receive(await this.#to.recordFor(record), moveId));
  }

  /**
   * False if the snapshots, or the fence, are gone that the target's bytes were read from. There may be more of them than are
   * noted, also if none are.
   * @param fenceId of the fence that stands
   */
  async #canResume(fenceId: string | undefined): Promise<boolean> {
    const { base, fenceId: readingUnder, readUnder, target } = this.#content;
    if (readUnder !== undefined && readUnder === fenceId) return true;
    // The volume itself tells what it has, and not what it has no more.
    const isWhole = base !== undefined || target !== undefined;
    if (fenceId !== undefined && isWhole && !this.#takesSnapshots) return false;
    if (base !== undefined && !(await this.#source.hasSnapshot(base))) return false;
    // All of it was read under a fence that does not stand any more.
    if (readUnder !== undefined) return base !== undefined;
    if (target !== undefined) return this.#source.hasSnapshot(target);
    return readingUnder === undefined || readingUnder === fenceId;
  }

  /** Round by round, until one is short. */
  async #rounds(incoming: Incoming): Promise<void> {
    let lastBytes: bigint | undefined;
    for (let round = 1; round <= maxRounds; round++) {
      const bytes = await this.#round(incoming, undefined);
      if (bytes <= shortBytes || (lastBytes !== undefined && bytes * 10n > lastBytes * 7n)) return;
      lastBytes = bytes;
    }
  }

  /** @param fenceId of the volume, if it is fenced @returns the number of bytes */
  async #round(incoming: Incoming, fenceId: string | undefined): Promise<bigint> {
    const { moveId } = this.#parts.job;
    const { base, offsetBytes } = this.#content;
    const target = this.#content.target ?? snapshotIdFor('move', `${moveId} ${randomUUID()}`);
    await this.#source.takeSnapshot(target);
    // Before its first byte. A note of a snapshot that was never taken would make all of the copy start again.
    await this.#note(incoming, { base, target, offsetBytes, fenceId });
    const bytes = await this.#copy(incoming, { base, target });
    await this.#note(incoming, { base: target, offsetBytes: 0n });
    if (base !== undefined) await this.#source.removeSnapshot(base);
    return bytes;
  }

  /** @returns the number of bytes */
  async #copy(incoming: Incoming, of: ReadRequest['of']): Promise<bigint> {
    const { pace, progress, signal } = this.#parts;
    const { base, offsetBytes, tree } = this.#content;
    const fromBytes = tree?.atBytes ?? offsetBytes;
    await using reading = await this.#source.read({ of, fromBytes, place: tree && placeIn(tree), signal });
    const { endBytes, pieces, record, totalBytes } = reading;
    const arrival = await this.#to.recordFor(record);
    requireEnd(endBytes, incoming.kind === 'tree' ? treeEndBytes : storedBytes(record), incoming.kind);
    await incoming.fit(arrival);
    Object.assign(progress, { doneBytes: 0n, totalBytes, roundStartedMs: performance.now() });
    progress.round++;
    const moved = (bytes: bigint) => {
      progress.doneBytes += bytes;
      progress.copiedBytes += bytes;
    };
    if (incoming.kind === 'tree') {
      const { name, queue } = this.#target;
      const { directory: root, limitBytes, links } = incoming;
      const noted = async (come: TreeProgress) => {
        if (!isShort(come)) return;
        await this.#note(incoming, { ...this.#content, tree: come });
        progress.reached.come(come);
      };
      const passed = (records: bigint) => {
        if (tree !== undefined) progress.reached.come(tree, records);
      };
      const target = { queue, root, links, limitBytes, from: tree };
      await unpackTree({ ...target, pieces, pace, signal, moved, noted, passed }).catch((error) => {
        if (isErrno(error, 'EDQUOT')) throw new ResourceExhausted(moreThanItsSize);
        throw explainFull(error, name, storedBytes(arrival));
      });
      return totalBytes;
    }
    const outside: CopyWork['outside'] = base !== undefined ? 'earlier' : incoming.isBlank ? 'zeros' : 'anything';
    await copyRanges({
      ...{ endBytes, fromBytes, outside, pace, pieces, signal, to: incoming },
      // One that is fenced does not grow: a part that came to it later would be read as it lies there.
      targetBytes: incoming.isRestAny && of === undefined ? endBytes : storedBytes(arrival),
      toQueue: this.#target.queue,
      moved,
      noted: (offsetBytes) => this.#note(incoming, { ...this.#content, offsetBytes }),
    });
    return totalBytes;
  }

  /** Fences the volume once it is not in use. Until then its changes are copied now and then, and once before the fence. */
  async #closeWhenIdle(incoming: Incoming): Promise<Closed> {
    const { job, keepUpMs, progress, signal } = this.#parts;
    const fence = { moveId: job.moveId, fenceId: randomUUID() };
    const keepUp = new KeepUp(performance.now(), shortBytes, keepUpMs);
    const round = async () => {
      const bytes = await this.#round(incoming, undefined).catch((error) => this.#passOverFull(error));
      keepUp.copied(performance.now(), bytes ?? 0n);
    };
    let isIdle = false;
    for (;;) {
      signal.throwIfAborted();
      if (this.#takesSnapshots && keepUp.isWorth(performance.now()) && (await this.#isIdle())) await round();
      const closed = await this.#source.close(fence);
      if (closed !== undefined) return closed;
      progress.phase = 'waiting';
      // Something else keeps it from being fenced.
      if (isIdle) await delay(idlePollMs, undefined, { signal });
      isIdle = await this.#becomesIdle();
      if (this.#takesSnapshots && keepUp.isDue(performance.now())) await round();
    }
  }

  /** Waits for the end of its use, for the time between two looks at most. */
  async #becomesIdle(): Promise<boolean> {
    const { signal } = this.#parts;
    const untilMs = performance.now() + idlePollMs;
    const sight = await this.#source.look(idlePollMs);
    if (sight?.isUsed === false) return true;
    // The devices of raw blocks stay, and a driver that is older does not wait.
    await delay(Math.max(untilMs - performance.now(), 0), undefined, { signal });
    return false;
  }

  async #isIdle(): Promise<boolean> {
    return (await this.#source.look())?.isUsed === false;
  }

  /** The last difference, of a volume that nothing changes any more. */
  async #finalRound(incoming: Incoming, { fenceId }: Closed): Promise<void> {
    this.#parts.progress.phase = 'switching';
    if (this.#content.readUnder === fenceId) return;
    if (this.#takesSnapshots) {
      // A round that was cut short, of a snapshot that was taken before the fence.
      if (this.#content.target !== undefined && this.#content.fenceId !== fenceId)
        await this.#round(incoming, undefined);
      await this.#round(incoming, fenceId);
    } else {
      await this.#note(incoming, { ...this.#content, fenceId });
      await this.#copy(incoming, undefined);
    }
    await this.#note(incoming, { base: this.#content.base, offsetBytes: 0n, readUnder: fenceId });
  }

  /** Handed over, committed, and out of sight where it was: from here on it is the other pool's. */
  async #switch(
    incoming: Incoming,
    { at, fenceId, generation, record }: Closed & Pick<WholeCopy, 'at'>,
    mark: CopyMark,
  ): Promise<void> {
    const { id, moveId } = this.#parts.job;
    // This node may have heard of a later copy meanwhile.
    if (mark.fence?.isGiven !== true) await this.#to.requireNotPast(id, mark);
    if (generation !== undefined) await this.#parts.whole({ fenceId, generation, record, at });
    const shape = await this.#to.recordFor(record);
    const { readUnder } = this.#content;
    await this.#source.handOver({ moveId, fenceId }, async (answer) => {
      try {
        await incoming.commit(shape, { mark: { moveId, readUnder }, answer, from: this.#source.node });
      } finally {
        // The volume may be here also if the note behind the commit has failed.
        switched.publish({ volumeId: this.#parts.job.id });
      }
      await this.#noteArrival();
      await incoming[Symbol.asyncDispose]();
    });
  }

  async #noteArrival(): Promise<void> {
    if (this.#source.node !== undefined) return;
    await this.#parts.arrived((await this.#to.stateOf(this.#parts.job.id)).mark);
  }

  /** The target has it: an earlier try has died before the source heard of it. */
  async #settle(): Promise<void> {
    const { id, moveId } = this.#parts.job;
    const { mark } = await this.#to.stateOf(id);
    const source = await this.#source.look();
    if (source !== undefined && source.state.why === undefined) {
      throw new AlreadyExists(`volume ${id} cannot move to pool ${this.#target.name}: a copy of it is there already.`);
    }
    await this.#source.settle({ moveId, generation: mark.generation });
  }

  async #note(incoming: Incoming, content: Content): Promise<void> {
    await incoming.note(`${this.#parts.job.moveId}\n${serializeContent(content)}`);
    this.#content = content;
  }
}

/** @throws DataLoss if the source names an end that no volume of this size has, and would write past all space that is held */
function requireEnd(endBytes: bigint, expected: bigint, kind: Incoming['kind']): void {
  if (kind === 'tree' ? endBytes === expected : endBytes <= expected) return;
  throw new DataLoss(
    `The other end says that the volume ends at ${endBytes}, and by its size it ends at ${expected}. Nothing was moved.`,
  );
}

/** The fence under which all bytes of a copy were read, as its note says: it may have been handed over. */
export function readUnderBy(note: string | undefined): string | undefined {
  return parseContent(note)?.readUnder;
}

function unusable(id: string, title: string): FailedPrecondition {
  return new FailedPrecondition(
    `volume ${id} in ${title} is not the valid copy, or is in another move: see holdfast move status.`,
  );
}

function serializeContent({ offsetBytes, tree, ...content }: Content): string {
  const progress = tree && { tree: progressOut(tree) };
  return JSON.stringify({ ...content, ...progress, offsetBytes: offsetBytes.toString() });
}

/** @returns undefined if the note cannot be read: the copy starts again */
function parseContent(noted: string | undefined): Content | undefined {
  const parsed = noted === undefined ? undefined : parseJsonInput(storedContent, noted.slice(noted.indexOf('\n') + 1));
  if (parsed === undefined || !('data' in parsed)) return undefined;
  const { base, fenceId, offsetBytes, readUnder, target, tree } = parsed.data;
  return {
    offsetBytes: BigInt(offsetBytes),
    ...(base !== undefined && { base: parseSnapshotId(base) }),
    ...(target !== undefined && { target: parseSnapshotId(target) }),
    ...{ fenceId, readUnder, tree },
  };
}
