import type { Descriptor } from '../kernel/call/descriptor.ts';
import type { ByteRange } from '../kernel/file/sparse.ts';
import { FailedPrecondition } from '../volume/errors.ts';
import type { SnapshotId, VolumeId } from '../volume/id.ts';
import type {
  Answer,
  Arrived,
  CopyMark,
  DraftMark,
  Fence,
  LostHere,
  LostNode,
  NewFence,
  Noted,
  Request,
  Unusable,
  WholeDraft,
} from '../volume/move/rule.ts';
import type { VolumeRecord } from '../volume/record.ts';
import type { SnapshotRecord } from '../volume/snapshot-record.ts';
import type { ChangedRangesRequest } from './pool.ts';

/**
 * The part of a pool in a move (`volume/move/rule.ts`): at any time at most one copy of the volume can be used. Each method
 * is durable when it returns. Calls for one volume are never concurrent.
 */
export interface PoolMoves {
  /** The same of snapshots, which follow their volume one after the other. */
  readonly snapshots: PoolSnapshotMoves;
  /** The mark of a copy, and the reason why it must not be used; undefined: it is the volume. */
  stateOf(id: VolumeId): Promise<CopyState>;
  /** Before another copy goes for this one. @throws DataLoss if not all of its data is there */
  verified(id: VolumeId): Promise<void>;

  /**
   * Fences the volume: from then on it can be neither attached, changed nor removed.
   * @returns its record, which stays the same from then on, and the fence: that of an earlier try, if it still stands
   * @throws FailedPrecondition while it is in use, or if it is no volume that can be used
   */
  close(id: VolumeId, fence: NewFence): Promise<Closed>;
  /** Ends the fence of a move that was given up. @throws FailedPrecondition if it may have been handed over */
  open(id: VolumeId, moveId: string): Promise<void>;
  /** Hands the volume over to the target that asks. @throws FailedPrecondition if it did not read under this fence */
  give(id: VolumeId, request: Request): Promise<Answer>;
  /**
   * Its target has committed: the copy goes to the trash, for a week at least. Not there is fine.
   * @returns false if a copy stays that is of another move, or no earlier one
   */
  settle(id: VolumeId, arrived: Arrived): Promise<boolean>;
  /** True if the copy in the trash was left: the volume went on in another pool. */
  hasLeft(id: VolumeId): Promise<boolean>;
  /** The mark of the copy in the trash; undefined: there is none. */
  trashedMark(id: VolumeId): Promise<CopyMark | undefined>;
  /** The other node that may have the volume, whose copy here, or in the trash here, was left; undefined: there is none. */
  whereElse(id: VolumeId): Promise<string | undefined>;
  /** The note of this node, which all its pools share. */
  noted(id: VolumeId): Promise<Noted>;
  /**
   * Gives up the copy that could be committed here: the source takes it back. No pool of this node has the volume.
   * @param given the mark of the source
   * @param lost the part of this node that is lost: the volume may have come here, and moved on between its pools
   * @returns its word for the source
   * @throws VolumeWentOn, VolumeHasCome
   */
  disclaim(id: VolumeId, given: CopyMark, source: string, lost?: LostHere): Promise<number>;
  /** The volume is here, by a commit whose end may not have been noted. */
  noteArrival(id: VolumeId): Promise<void>;
  /** It was deleted while no pool of this node had it: its name can be used again. A copy of a snapshot that comes back is an old one. */
  noteDeleted(id: SnapshotId | VolumeId): Promise<void>;
  /**
   * Asked before the source is fenced, and before it hands the volume over: what it gives can be committed here.
   * @param mark of the source
   * @throws FailedPrecondition if this node has had a later copy
   */
  requireNotPast(id: VolumeId, mark: CopyMark): Promise<void>;
  /** The generation that this node has noted, if that copy was committed here, and the volume has gone on since. */
  goneOn(id: VolumeId, given: CopyMark, source: string): Promise<number | undefined>;
  /**
   * Makes a copy the volume again that was handed over. No other pool of this node has the volume.
   * @param word of the node that it was handed over to (`disclaim`); or the name of that one, which is lost permanently
   * @throws FailedPrecondition if another node may have it
   */
  takeBack(id: VolumeId, word?: number | LostNode): Promise<void>;
  /**
   * The volume was taken back by another node. An earlier copy here is used no more, and goes to the trash.
   * @returns false if there is none
   * @throws FailedPrecondition while it is in use; it gets no new use
   */
  outdate(id: VolumeId, by: LaterCopy): Promise<boolean>;

  /** The bytes of a volume or snapshot, with those of its encryption; or its directory. @throws NotFound, DataLoss */
  read(id: VolumeId | SnapshotId): Promise<Descriptor>;
  /** The volume may take another space than was counted last: counts it again, and waits a moment for that. */
  recount(id: VolumeId): Promise<void>;
  /** True if `changedRanges` can tell what a later snapshot has changed, also of a volume in use. */
  readonly hasChanges: boolean;
  /** Like `Pool.changedRanges`, of all these bytes. */
  changedRanges(request: ChangedRangesRequest): AsyncIterable<ByteRange>;

  /** The record that the volume would have here. @throws FailedPrecondition, AlreadyExists: why it cannot be here */
  recordFor(record: VolumeRecord): Promise<VolumeRecord>;
  /** The space that an earlier `receive` has taken of a volume that is not here: another one needs no more of it. */
  comingBytes(id: VolumeId): Promise<bigint>;
  /** The note about it, as `Incoming.note` wrote it last. */
  comingNote(id: VolumeId): Promise<string | undefined>;
  /**
   * Receives a volume, or resumes that.
   * @param isWhole all of it has come: it needs no more space
   * @throws ResourceExhausted
   */
  receive(record: VolumeRecord, moveId: string, isWhole?: boolean): Promise<Incoming>;
  /** The volumes of which `receive` has begun a copy that has not become the volume. */
  arriving(): Promise<readonly VolumeId[]>;
  /** Gives up what an earlier `receive` has left of a volume that is not here. */
  discard(id: VolumeId): Promise<void>;
}

/** The copy is not fenced for this move any more: nothing of it was handed over, or will be. */
export class NotHandedOver extends FailedPrecondition {}

/** The volume is on this node, by its note, in a pool that is not there: only a second word gives that up. */
export class VolumeHasCome extends FailedPrecondition {}

/** The volume has been on this node, and has gone on: its source takes nothing back. */
export class VolumeWentOn extends FailedPrecondition {}

/**
 * The part of a pool in the move of a snapshot. It never changes: so it is read and cloned under its fence as before, and it can be
 * removed, which ends the move. Once it was handed over, this copy is neither listed nor used.
 */
export interface PoolSnapshotMoves {
  /** All copies of snapshots of the volume, also those that were handed over. */
  all(sourceId: VolumeId): SnapshotRecord[];
  /** True if there is a copy here that is the snapshot no more: it was handed over, or is an old one. */
  isLeft(id: SnapshotId): boolean;
  /** True if it is such a copy, and no other node may have the snapshot: if no pool has it, it waits for the end of its move. */
  waits(id: SnapshotId): Promise<boolean>;
  /** All of which that is so. */
  waiting(): Promise<ReadonlySet<SnapshotId>>;
  /** The copies that were handed over to another node, which has not said that the snapshot is there. */
  handedOver(): { readonly record: SnapshotRecord; readonly to: string }[];
  /** The copy here, if there is one, also if it was handed over. */
  find(id: SnapshotId): SnapshotRecord | undefined;
  /** The same, as it is on the disk, durably. @throws what keeps that from being known */
  settled(id: SnapshotId): Promise<SnapshotRecord | undefined>;
  stateOf(id: SnapshotId): Promise<CopyState>;
  /** The generation of the copy here, before another one goes for it. @throws DataLoss if not all of its data is there */
  verified(id: SnapshotId): Promise<number>;
  /**
   * Fences it for a move with a new id.
   * @param to the pool that it goes to
   * @param node of that pool, if it is another one
   * @returns the fence: that of an earlier try, if it still stands, and is for that pool, or the snapshot was handed over (`isFenceFor`)
   */
  close(id: SnapshotId, to: string, node?: string): Promise<Fence>;
  /** Ends the fence of a move that was given up. @throws FailedPrecondition if it may have been handed over */
  open(id: SnapshotId): Promise<void>;
  /** Hands the snapshot over. @throws NotFound if it was removed, FailedPrecondition if it did not read under this fence */
  give(id: SnapshotId, request: Request): Promise<Answer>;
  /** Its target has committed: the copy is destroyed. Not there is fine. @returns false if a copy stays that is no earlier one */
  settle(id: SnapshotId, generation: number): Promise<boolean>;
  /** The snapshot is being removed where it is now: a copy here that was left goes with it. */
  removeLeft(id: SnapshotId): Promise<void>;
  /**
   * The snapshot was deleted in another pool, where it had that generation: an older copy of it here goes.
   * @param createdAt the time of that snapshot
   */
  removeOlder(id: SnapshotId, createdAt: string, generation: number): Promise<void>;
  /**
   * The snapshot is being deleted: each copy that comes back with a pool, also a long time later, is an old one.
   * @returns false if it has never moved
   */
  noteDeleted(id: SnapshotId): Promise<boolean>;
  /** The snapshots that were deleted, and of which a copy has come back with this pool: `removeLeft` removes it. */
  deleted(): Promise<SnapshotId[]>;
  /**
   * True if the snapshot was deleted on this node once it had moved, by the note that all pools share.
   * @param createdAt the time of the snapshot: one that was taken under its name after the deletion is another one
   */
  wasDeleted(id: SnapshotId, createdAt: string): Promise<boolean>;
  /** Another node has taken it back: an earlier copy here is used no more, and goes. */
  outdate(id: SnapshotId, by: Pick<Required<LaterCopy>, 'createdAt' | 'generation' | 'node'>): Promise<void>;
  /**
   * Makes a copy the snapshot again that was handed over. No other pool of this node has it.
   * @param word of the node that it was handed over to (`disclaim`); or the name of that one, which is lost permanently
   * @throws FailedPrecondition if another node may have it
   */
  takeBack(id: SnapshotId, word?: number | LostNode): Promise<void>;
  /** The note of this node, which all its pools share. */
  noted(id: SnapshotId): Promise<Noted>;
  /** Like `PoolMoves.noteArrival`. */
  noteArrival(id: SnapshotId): Promise<void>;
  /** Like `PoolMoves.requireNotPast`. */
  requireNotPast(id: SnapshotId, mark: CopyMark): Promise<void>;
  /** Like `PoolMoves.disclaim`. */
  disclaim(id: SnapshotId, given: CopyMark, source: string): Promise<number>;
  read(id: SnapshotId): Promise<Descriptor>;
  /** Space is taken in multiples of this. */
  readonly unitBytes: bigint;

  /** @throws FailedPrecondition: why it cannot leave this pool */
  requireMovable(record: SnapshotRecord): void;
  /** @throws FailedPrecondition, AlreadyExists: why it cannot be here */
  requireRoomFor(record: SnapshotRecord): void;
  /** Receives a snapshot, or resumes that. @throws ResourceExhausted */
  receive(record: SnapshotRecord, options: SnapshotArrival): Promise<IncomingSnapshot>;
  /** The snapshots of which `receive` has begun a copy that is not whole. */
  arriving(): Promise<readonly SnapshotId[]>;
  /** The note about the part of one that has arrived, as `IncomingSnapshot.note` wrote it last. @throws DataLoss */
  notedOf(id: SnapshotId): Promise<string | undefined>;
  /** Gives up what an earlier `receive` has left of a snapshot that is not here. */
  discard(id: SnapshotId): Promise<void>;
}

export interface SnapshotArrival {
  readonly moveId: string;
  /** The space that its blocks may take here, with those that an earlier try has written. */
  readonly newBytes: bigint;
  /** It was handed over: its space was granted before that, and must not be refused now. */
  readonly isGiven: boolean;
  /** Does something while no other call has a volume or snapshot of this pool. */
  alone<T>(id: SnapshotId | VolumeId, work: () => Promise<T>): Promise<T>;
}

/** A snapshot on its way into a pool. Its space is held until it is disposed of. */
export interface IncomingSnapshot extends AsyncDisposable {
  readonly isNew: boolean;
  readonly noted: string | undefined;
  readonly data: Descriptor;
  /** A new one began with the blocks of something else here: all of it is compared. */
  readonly isClone: boolean;
  note(text: string): Promise<void>;
  zero(range: ByteRange): Promise<void>;
  /** A part was written, and takes its space now. */
  wrote(range: ByteRange): void;
  /** Before it is handed over. @throws ResourceExhausted if what it shares leaves too little */
  confirm(): Promise<void>;
  /**
   * Its content is synced, and it becomes the snapshot, by one atomic step.
   * @param from the node that it comes from; undefined: a pool of this one
   * @throws FailedPrecondition
   */
  commit(draft: DraftMark, answer: Answer, from: string | undefined): Promise<void>;
  /**
   * The same by the word of an operator that its source is lost.
   * @param lost the node that it comes from; undefined: a pool of this one
   * @throws FailedPrecondition
   */
  finish(draft: WholeDraft, lost: LostNode | undefined): Promise<void>;
}

/** The copy of another node, by which one here is an earlier one. */
export interface LaterCopy {
  readonly generation: number;
  readonly node: string;
  /** The time, in RFC 3339, at which it became the volume. */
  readonly at: string;
  /** When the volume was made, in RFC 3339: one that was made at another time is another volume. undefined: one that was made after `at`. */
  readonly createdAt?: string | undefined;
}

export interface Closed {
  readonly record: VolumeRecord;
  readonly fenceId: string;
  /** The generation of the copy; undefined: the driver of its node is older, and does not say it. */
  readonly generation?: number | undefined;
}

export interface CopyState {
  readonly mark: CopyMark;
  readonly why: Unusable | undefined;
}

/** The last step of a move at its target. */
export interface Arrival {
  readonly mark: DraftMark;
  readonly answer: Answer;
  /** The node that it comes from; undefined: a pool of this one. */
  readonly from: string | undefined;
}

/** A volume on its way into a pool. Its space is held until it is disposed of. */
export type Incoming = IncomingBytes | IncomingTree;

interface IncomingVolume extends AsyncDisposable {
  /** True if nothing of an earlier try is in it. */
  readonly isNew: boolean;
  /** The mover's note about it, as `note` wrote it last. */
  readonly noted: string | undefined;
  note(text: string): Promise<void>;
  /** The volume may have grown meanwhile, or be thick by now. @throws ResourceExhausted */
  fit(record: VolumeRecord): Promise<void>;
  /** Its content is synced, and it becomes the volume, by one atomic step. @throws FailedPrecondition */
  commit(record: VolumeRecord, arrival: Arrival): Promise<void>;
  /**
   * The same by the word of an operator: its source is lost. All pools of this node are open, and none has the volume.
   * @param lost the node that was its source; undefined: a pool of this node
   * @throws FailedPrecondition
   */
  finish(record: VolumeRecord, draft: WholeDraft, lost: LostNode | undefined): Promise<void>;
  /** Before that. @throws FailedPrecondition: what it would throw; nothing is changed */
  requireFinishable(id: VolumeId, draft: WholeDraft, lost: LostNode | undefined): Promise<void>;
}

/** A volume that is the bytes of a device. */
export interface IncomingBytes extends IncomingVolume {
  readonly kind: 'bytes';
  /** To be read and written. */
  readonly data: Descriptor;
  /** The content of a new one is zeros; else it is anything. */
  readonly isBlank: boolean;
  /** Behind the end of a source that does not grow any more it may have anything. */
  readonly isRestAny: boolean;
  zero(range: ByteRange): Promise<void>;
}

/** A volume that is a directory. */
export interface IncomingTree extends IncomingVolume {
  readonly kind: 'tree';
  readonly directory: Descriptor;
  /** The limit of what comes into it, whatever the other end sends. */
  readonly limitBytes: bigint;
  /** Another directory beside it, for entries that wait for more names. It goes before the commit. */
  readonly links: Descriptor;
}
