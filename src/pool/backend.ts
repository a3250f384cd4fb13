import type { Descriptor } from '../kernel/call/descriptor.ts';
import type { DiskQueue } from '../kernel/call/disk-queue.ts';
import type { Place } from '../kernel/file/fiemap.ts';
import type { ByteRange } from '../kernel/file/sparse.ts';
import type { VolumeContent } from '../volume/capability.ts';
import type { HoldfastError } from '../volume/errors.ts';
import type { FilesystemType } from '../volume/filesystem.ts';
import type { GroupId, SnapshotId, VolumeId } from '../volume/id.ts';
import type { Layout } from '../volume/layout.ts';
import type { Provisioning, VolumeRecord } from '../volume/record.ts';
import type { Secrets } from '../volume/secrets.ts';
import type { GroupRecord, SnapshotRecord } from '../volume/snapshot-record.ts';
import type { Deletion, TrashContents, TrashEntry, TrashRef } from './indexes/trash-entry.ts';
import type {
  Attached,
  Attachment,
  AttachOptions,
  ChangedRangesRequest,
  ClusterReach,
  Condition,
  HealthWatch,
  QuotaUsage,
  Seen,
  SeenVolume,
  Traits,
  TrimOptions,
  VolumeSpec,
} from './pool.ts';
import type { WipeProgress } from './wipe/wiper.ts';

/**
 * The interface that a kind of pool implements; docs/internals/kinds.md tells how. Everything else, the catalog does once for all kinds
 * (`catalog/`): ids, replays, the trash, groups, space, and what a crash has left.
 *
 * Each method is durable when it returns, and safe to repeat after a crash at any point in it. The catalog never calls
 * two of them for one object at a time. Errors of the disk are thrown as they are (`kernel/call/errno.ts`).
 */
export interface Backend {
  /** The name in the configuration: `image`. */
  readonly kind: string;
  readonly traits: Traits;
  /** Where the blocking calls to its disk run. */
  readonly queue: DiskQueue;
  readonly records: RecordStore;
  readonly provisioner: Provisioner;
  readonly attacher: Attacher;
  readonly space: SpaceSource;
  readonly extras: Extras;
  /** For kinds whose volumes every node of the cluster can reach. */
  readonly cluster?: ClusterReach | undefined;
  /** A snapshot to be made. Unset: there are none, nor clones. */
  readonly snapshotDraft?: ((id: SnapshotId) => SnapshotDraft) | undefined;
  /** The logical block size of a new volume's device. Unset: it has none. */
  blockSizeOf?(spec: Pick<VolumeSpec, 'content' | 'mkfsArguments'>): number;
  /** Writes a little, durably, in this queue; fails or hangs as the disk does. */
  probe(queue: DiskQueue, watch: HealthWatch): Promise<void>;
  /** Leaves everything as it is, as a kill -9 would, but for what this process alone holds. Waits for nothing. */
  abandon(): void;
  /** Lets the pool go. Volumes in use stay in use. */
  close(): Promise<void>;
}

/**
 * A backend over another one, which holds its data, e.g. for encryption. The space of the layer's own data there is added to the
 * requested size, and never taken from the user's.
 */
export type Layer<Options> = (inner: Backend, options: Options) => Backend;

/** Something whose record cannot be read. It is left as it is, and calls for it answer with an error. */
export interface Damaged<Id> {
  readonly id: Id;
  readonly reason: string;
}

export interface ReadRecords<Id, Kind> {
  readonly records: Kind[];
  readonly damaged: Damaged<Id>[];
}

/** Records of all types. */
export interface Records {
  readonly volumes: ReadRecords<VolumeId, VolumeRecord>;
  readonly snapshots: ReadRecords<SnapshotId, SnapshotRecord>;
  readonly groups: ReadRecords<GroupId, GroupRecord>;
}

/** Reads records, and changes nothing: no driver needs to run. */
export interface RecordReader {
  /** All records. With an id: as they are now, and at least the one of that object, unless it is not there. */
  read(id?: VolumeId | SnapshotId | GroupId): Promise<Records>;
  /** The content of the trash, all of it or that of one id. */
  readTrash(id?: VolumeId | SnapshotId): Promise<TrashContents>;
}

/** Where the truth lies: files beside the data, tags of a volume group. A record and its data come and go as one. */
export interface RecordStore extends RecordReader {
  /** Replaces the record of a volume as a whole, however full the pool is. */
  writeVolume(record: VolumeRecord): Promise<void>;
  /** From then on the group and its members exist. */
  writeGroup(record: GroupRecord): Promise<void>;
  removeGroup(id: GroupId): Promise<void>;
  /** Makes the visible state of an object durable, here and in the trash. */
  sync(id: VolumeId | SnapshotId | GroupId): Promise<void>;
  /** The last noted age of the pool, and the time of its note (`catalog/pool-age.ts`). */
  readAge(): Promise<string | undefined>;
  writeAge(note: string): Promise<void>;
}

/** A volume or snapshot being made: it is neither visible nor in use until its commit. */
export interface Draft {
  /** A name for it, without content. */
  begin(): Promise<void>;
  /** Clones data into it. The catalog keeps the source free of writes for the end of that. */
  clone(source: Recorded): Clone;
  /** The space that it takes so far. */
  takenBytes(): Promise<bigint>;
  /** Atomically: before nothing exists, afterwards everything. */
  commit(): Promise<void>;
  /**
   * Takes it away, also if its commit failed half way. The part that a later try can resume stays.
   * @returns the part that must be destroyed
   */
  discard(): Promise<TrashRef | undefined>;
}

/** The data of a new volume: by its record, unless a layer has its own data in it. */
export interface NewData extends Pick<VolumeRecord, 'blockSizeBytes' | 'content' | 'provisioning' | 'sizeBytes'> {
  /** Checked against the list of harmless ones. */
  readonly mkfsArguments: readonly string[];
  /** For a layer that encrypts. */
  readonly secrets?: Secrets | undefined;
}

/** The way in which a draft is made, whatever is in it. */
export interface DraftOptions extends Pick<VolumeSpec, 'layout' | 'wipe' | 'zone'> {
  readonly isResumable: boolean;
}

export interface VolumeDraft extends Draft {
  /** Refuses early, before anything is written, what a layer would refuse later: e.g. a missing key. */
  check?(record: VolumeRecord, request: Pick<NewData, 'secrets'> & { readonly isClone: boolean }): Promise<void>;
  /** Its data, blank or formatted, and its record. */
  make(record: VolumeRecord, data: NewData): Promise<void>;
  /** Makes a volume of the clone in it: its size, its own identity, its record. */
  complete(record: VolumeRecord, data: Omit<NewData, 'mkfsArguments'>): Promise<void>;
  /** Shows its data as a device, exclusively, for the time of `work`; for kinds that have devices. */
  withDevice?<T>(blockSizeBytes: number, work: (devicePath: string) => Promise<T>): Promise<T>;
}

export interface SnapshotDraft extends Draft {
  complete(record: SnapshotRecord): Promise<void>;
}

/** Something that has data, and what its record says of it. */
export type Recorded =
  | { readonly kind: 'volume'; readonly record: VolumeRecord }
  | { readonly kind: 'snapshot'; readonly record: SnapshotRecord };

export interface Provisioner {
  /** @param options.isResumable it takes long, and a later try will resume it */
  draft(id: VolumeId, options: DraftOptions): VolumeDraft;
  /** Gives up drafts that are not resumed. @returns the ones that must be destroyed */
  discardDrafts(ids: ReadonlySet<VolumeId | SnapshotId>): Promise<TrashRef[]>;
  /** The same for all that a killed driver left, except for those that can be resumed. */
  leftDrafts(): Promise<TrashRef[]>;

  /** @throws DataLoss if its data is missing, or cut short: a copy of it would pass for whole */
  verify(object: Recorded): Promise<void>;
  /** The problem with its data, undefined: none. */
  conditionOf(record: VolumeRecord): Promise<Condition | undefined>;
  /** The size of its data, whatever the record says; undefined: it is missing. */
  sizeOf(id: VolumeId): Promise<bigint | undefined>;
  /** A file with the bytes of its device, for kinds that have one, attached or not. */
  dataFile?(id: VolumeId): string;
  /** Makes its data as large as the record says, or leaves it as it was. Never smaller. */
  grow(record: VolumeRecord): Promise<void>;

  /**
   * Takes a volume out of sight, atomically: it can be brought back if `deletion` is noted with it. Gone is fine.
   * @param mayBeMarked false: no note of an earlier deletion lies with it
   */
  removeVolume(id: VolumeId, deletion: Deletion | undefined, mayBeMarked?: boolean): Promise<Removed>;
  removeSnapshot(id: SnapshotId): Promise<TrashRef>;
  /** Removes what may be there of one without a record here, where storage shows late what it has. */
  removeUnknown?(id: VolumeId | SnapshotId): Promise<void>;
  /** The volume is as if it had never been deleted. */
  restore(entry: TrashEntry): Promise<void>;
  /** Replaces the note about the deletion of something in the trash. undefined: from then on it cannot be brought back. */
  mark(ref: TrashRef, deletion: Deletion | undefined): Promise<void>;
  /** Gone is fine. */
  destroy(ref: TrashRef, how: Destruction): Promise<void>;
  /** Opens data in the trash to be written over; undefined: it is gone. For kinds with devices. */
  openInTrash?(ref: TrashRef): Promise<Descriptor | undefined>;
  /** For a layer that encrypts: from then on the data is unreadable, whatever becomes of its blocks. Gone is fine. */
  shred?(ref: TrashRef): Promise<void>;
  /** It may take hours, as a disk is wiped: nothing else waits for it, and it takes care itself of how many run at a time. */
  readonly destroysSlowly?: boolean;
}

export interface Removed {
  readonly ref: TrashRef;
  /** false: it was removed by hand before, and there is nothing to bring back. */
  readonly isKept: boolean;
}

export interface Destruction {
  /** A call waits for its space. */
  readonly isNeeded: boolean;
  /** Others may share its blocks. */
  readonly isShared: boolean;
  /** Aborted when the pool is closed: the next opening does the rest. */
  readonly signal: AbortSignal;
}

/** A clone on its way. */
export interface Clone {
  /** Does all that can be done while the source is written to. Called again, it does the changes meanwhile. Unset: that is nothing. */
  goAhead?(signal?: AbortSignal): Promise<void>;
  /** The source's content as it is now. */
  complete(end: CloneEnd): Promise<void>;
}

export interface CloneEnd {
  /** True if nothing writes to the source until it is done. Else the clone itself must show one instant. */
  readonly isAtRest: boolean;
  /** Aborted when the clone is not wanted any more. */
  readonly signal?: AbortSignal | undefined;
}

export interface Attacher {
  /** @throws DataLoss */
  attach(record: VolumeRecord, options: AttachOptions): Promise<Attachment>;
  /** Its devices; a directory or something mountable is attached for as long as it is mounted. */
  attached(id: VolumeId): Promise<Attached[]>;
  /** The attachments that keep the volume in use: one that is about to go gets a moment. */
  inUse(id: VolumeId): Promise<readonly Attached[]>;
  /**
   * Nothing of it is mounted in this mount namespace. If it is open anyway, it goes with its last user, or
   * stays for a later call: that is no error. An attachment that is no longer this pool's is left alone.
   */
  detach(attached: Attached): Promise<void>;
  /** Known to the records or not. */
  volumeSeen(seen: Seen): Promise<SeenVolume | undefined>;
  /** The attachments of all volumes whose data is there. */
  all(): Promise<Attached[]>;
  /** The number of attachments of each volume, without opening anything. */
  counts(): Promise<ReadonlyMap<string, number>>;
  /** Detaches volumes that are not visible: a driver was killed before it had shown them. */
  detachOrphans(): Promise<VolumeId[]>;
  /** Its data has grown. Unset: its devices have, too. */
  grown?(id: VolumeId): Promise<void>;
  /** Its data is another one, or gone. */
  forget?(id: VolumeId): void;
  /** For a disk that cannot be asked: what the kernel alone knows. */
  readonly rescue: Pick<Attacher, 'attached' | 'detach' | 'volumeSeen'>;
}

/** The figures of a pool's storage. */
export interface StorageSpace {
  readonly filesystemBytes: bigint;
  readonly freeBytes: bigint;
  /** The bytes that have been written to it, by all programs. */
  readonly takenBytes: bigint;
  /** True if a write is counted only once it is on the disk; then `sync` must run before the figures are read. */
  readonly isCountedLate: boolean;
  /** It has blocks, perhaps, but can hold no more files. */
  readonly isOutOfInodes: boolean;
  /** It is nearly full, by a sign that the kind knows better than the free bytes. */
  readonly isNearlyFull?: boolean;
  /** The space that notes where data lies, if it can run out separately. */
  readonly metadata?: { readonly usedBytes: bigint; readonly totalBytes: bigint };
  /** The reason why nothing can be made just now, however much is free; the trash is not emptied for a call that would fail. */
  readonly obstacle?: HoldfastError | undefined;
  /** The reason why nothing more fits, where sizes would not show it; the sentence continues after the pool's name. */
  readonly whyFull?: string | undefined;
}

/** Names data: the id of a volume or snapshot, or its place in the trash. */
export type DataRef = VolumeId | SnapshotId | TrashRef;

/** The questions of the space ledger (docs/space.md). */
export interface SpaceSource {
  /** True if clones share blocks with their sources. */
  readonly sharesBlocks: boolean;
  /** Set: nothing but volumes takes of it, so all of it can be provisioned, and it is no problem if it is full. */
  readonly isForVolumesAlone?: true;
  /** The overcommitment, for a kind that has it among its own keys. */
  readonly overcommit?: number;
  /** Part of the reserve that is held on the disk; it goes when records need it. */
  readonly reservedBytes: bigint;
  storage(): Promise<StorageSpace>;
  /** Puts pending writes on the disk, so that they count (`StorageSpace.isCountedLate`). */
  sync?(): Promise<void>;
  /** Waits until the space of destroyed data is free. */
  settle?(): Promise<void>;
  /** The id of the owner of something in the trash. */
  idInTrash(ref: TrashRef): VolumeId | SnapshotId | undefined;
  /** Space is taken in multiples of this; undefined: of a block. */
  readonly unitBytes?: bigint | undefined;
  /** Called when `allocatedBytes` of the data may say something new. The ledger sets it. */
  onCounted?: ((data: DataRef) => void) | undefined;
  /** A deleted volume lies in the trash, and takes what it took. */
  moved?(from: VolumeId, to: TrashRef): void;
  /** Nothing of the data is left. */
  forget?(data: DataRef): void;
  /** The data was changed since it was counted last: counts it again, and waits a moment for that. */
  recount?(data: DataRef): Promise<void>;
  /** Missing data takes nothing. */
  allocatedBytes(data: DataRef): Promise<bigint>;
  /** The part of it that others share. Unset: only the records tell what may be shared. */
  sharing?(data: DataRef): Promise<{ readonly sharedBytes: bigint; readonly unsharedBytes: bigint }>;
  /** Where its blocks lie. Unset: that is too much to ask. */
  places?(data: DataRef): AsyncIterable<readonly Place[]>;
  readonly templates?: TemplateSpace | undefined;
  /** For kinds whose volumes may take more than their size, by how they lie on several disks. */
  readonly layouts?: LayoutSpace | undefined;
}

/** The space of volumes on several disks. */
export interface LayoutSpace {
  /** The total space of a new volume. */
  neededBytes(sizeBytes: bigint, layout: Layout): bigint;
  /** The additional space when it has this size. */
  growthBytes(data: DataRef, sizeBytes: bigint): bigint;
  /** The largest size of a volume with this layout, if it may take this space in all. */
  largestBytes(availableBytes: bigint, layout: Layout): bigint;
}

/** Filesystems that new volumes are cloned or copied from. They can go at any time. */
export interface TemplateSpace {
  readonly takenBytes: bigint;
  /** True if there ever were any, so that volumes may share blocks with them. */
  readonly wereThere: boolean;
  /** Holds space for a new one; undefined: there is too little. The catalog sets it. */
  hold: (bytes: bigint) => Promise<Disposable | undefined>;
  /** True, once, if the volume was just made as a clone of one. */
  takeFresh(id: VolumeId): boolean;
  /** Gives up all of them: their space is needed. @returns whether there were any */
  clear(): Promise<boolean>;
}

/** The abilities that not every kind has. */
export interface Extras {
  readonly trim?: ((record: VolumeRecord, options: TrimOptions) => Promise<bigint | undefined>) | undefined;
  /** The target's and base's data are held open from the first range to the last. */
  readonly quotaUsage?: ((id: VolumeId) => Promise<QuotaUsage | undefined>) | undefined;
  readonly changedRanges?:
    | ((request: ChangedRangesRequest, find: (id: SnapshotId) => SnapshotRecord) => AsyncIterable<ByteRange>)
    | undefined;
  readonly thickness?: Thickness | undefined;
  /**
   * Has an encrypted volume open with the key that the secrets have, and no longer with the one that they say it had.
   * @returns the name of the key that opens it now; undefined: they say nothing of an earlier key
   */
  readonly changeKey?: ((record: VolumeRecord, secrets: Secrets) => Promise<string | undefined>) | undefined;
  /** Repairs a filesystem on a clone. */
  readonly repairDraft?:
    | ((record: VolumeRecord, fsType: FilesystemType, secrets: Secrets | undefined) => RepairDraft)
    | undefined;
  /** The wipes of deleted volumes and snapshots, in progress or waiting. */
  readonly wipes?: (() => readonly WipeProgress[]) | undefined;
  readonly adoption?: Adoption | undefined;
  /** The reason why there is none, where another pool of the kind has it; the sentence continues after the pool's name. */
  readonly noAdoption?: string | undefined;
  readonly transfer?: Transfer | undefined;
}

/**
 * For kinds whose volumes are the bytes of a device, or directories: all that a move to another pool needs of either end
 * (docs/move.md). A layer's own data, e.g. the header of an encryption, is among these bytes.
 */
export interface Transfer {
  /** The mark beside a record (`catalog/move-mark.ts`); undefined: none. It goes into the trash with it. */
  readMark(id: SnapshotId | VolumeId): Promise<string | undefined>;
  /** Replaces it, durably, however full the pool is. */
  writeMark(id: SnapshotId | VolumeId, text: string): Promise<void>;
  markInTrash(ref: TrashRef): Promise<string | undefined>;
  /** Opens its bytes, or its directory. @throws DataLoss */
  read(object: Recorded): Promise<Descriptor>;
  /** Like `Extras.changedRanges`, but of all these bytes; undefined: not known. */
  readonly changedRanges?: Extras['changedRanges'] | undefined;
  /** The size of the sectors of its devices; undefined: the one that the record of a volume says. */
  readonly sectorBytes?: number | undefined;
  incoming(id: VolumeId): IncomingDraft;
  /** The volumes of which there is such a draft, with a note. */
  incomingVolumes(): Promise<readonly VolumeId[]>;
  /** The error that keeps a volume from coming here just now; undefined: none. For kinds with room for one volume. */
  whyNoRoom?(id: VolumeId): HoldfastError | undefined;
  /** undefined: no snapshots come here. */
  readonly incomingSnapshot?: ((id: SnapshotId) => IncomingSnapshotDraft) | undefined;
  /** The snapshots of which there is such a draft. */
  readonly incomingSnapshots?: (() => Promise<readonly SnapshotId[]>) | undefined;
}

/** The space of a volume on its way from another pool. */
export interface IncomingRoom extends Pick<VolumeRecord, 'provisioning'> {
  /** With a layer's own data. */
  readonly sizeBytes: bigint;
}

/** A volume on its way from another pool: invisible, there is one for each id, and it outlives the driver. */
export type IncomingDraft = IncomingBytesDraft | IncomingTreeDraft;

/** Something on its way, with a record of that type. */
interface IncomingRecord<Kind> {
  /** The mover's note about its content, which lies beside it; undefined: none, or there is no such draft. */
  readNote(): Promise<string | undefined>;
  /** Replaces it, durably. */
  writeNote(text: string): Promise<void>;
  takenBytes(): Promise<bigint>;
  /** Its record and its mark, durably. Its content is synced. */
  complete(record: Kind, mark: string): Promise<void>;
  /** Atomically: it exists then. */
  commit(): Promise<void>;
  /** The note is of no use any more. */
  forgetNote(): Promise<void>;
  /** Takes it away, or the rest of one. @returns the data that must be destroyed */
  discard(): Promise<readonly TrashRef[]>;
}

interface IncomingVolumeDraft extends IncomingRecord<VolumeRecord> {
  /** Makes it, or finds the one of an earlier try. */
  begin(room: IncomingRoom): Promise<void>;
  /** Makes it as large; never smaller. */
  resize(sizeBytes: bigint): Promise<void>;
}

interface BytesDraft {
  /** Opens its bytes, to be read and written. */
  open(): Promise<Descriptor>;
  /** Makes a range read as zeros. */
  zero(data: Descriptor, range: ByteRange): Promise<void>;
}

export interface IncomingBytesDraft extends IncomingVolumeDraft, BytesDraft {
  readonly kind: 'bytes';
  /** True if a new one reads as zeros. Known once it has begun. */
  readonly isBlank: boolean;
  /** Set: behind the end of a source that does not grow any more it may have anything, as a new volume here has. */
  readonly isRestAny?: true;
}

/** A snapshot on its way from another pool: invisible, there is one for each id, and it outlives the driver. */
export interface IncomingSnapshotDraft extends IncomingRecord<SnapshotRecord>, BytesDraft {
  /**
   * Makes a new one, with the blocks of something here that is nearly the same, whatever becomes of that meanwhile.
   * @param sizeBytes with a layer's own data
   * @returns false if it shares none, and reads as zeros
   */
  make(sizeBytes: bigint, base: Recorded | undefined): Promise<boolean>;
}

export interface IncomingTreeDraft extends IncomingVolumeDraft {
  readonly kind: 'tree';
  /** The limit of what comes into it. A quota does not hold it: root passes that of ext4, and a pool may have none. */
  readonly limitBytes: bigint;
  /** Opens its directory. */
  open(): Promise<Descriptor>;
  /** Opens the directory beside it that is gone once it is complete. */
  openLinks(): Promise<Descriptor>;
}

/**
 * For kinds that can make a volume of existing data in their storage, as it is, and give it back. A layer has none,
 * unless that data has the layer's format.
 */
export interface Adoption {
  /**
   * Describes the data at a path. Changes nothing.
   * @throws NotFound, InvalidArgument, FailedPrecondition: why it cannot become a volume
   */
  examine(path: string): Promise<Adoptable>;
  /**
   * Makes it the data of a volume with this record, by one atomic step; before that it is untouched. When it throws,
   * what the records say is true.
   */
  adopt(found: Adoptable, record: VolumeRecord): Promise<void>;
  /**
   * Puts the data of a volume that is not in use to a path, by one atomic step, and takes its record away.
   * @returns the rest that must be destroyed
   * @throws FailedPrecondition, AlreadyExists, NotFound: why it cannot lie there; nothing has changed then
   */
  release(record: VolumeRecord, path: string): Promise<TrashRef | undefined>;
  /**
   * Finishes or undoes what a killed driver has begun; before the records are read.
   * @returns whose it was
   */
  reconcile(): Promise<readonly VolumeId[]>;
}

/** Something that can become a volume. */
export interface Adoptable {
  readonly path: string;
  /** The identity of that very thing, whatever comes to lie at the path: `adopt` takes no other. */
  readonly identity: string;
  readonly content: VolumeContent;
  readonly provisioning: Provisioning;
  readonly blockSizeBytes: number;
  /** The space that it takes now. */
  readonly usedBytes: bigint;
  /** The only size that it can have; undefined: any. */
  readonly sizeBytes?: bigint | undefined;
}

/** For kinds in which blocks can be taken before they are written. */
export interface Thickness {
  /** All its blocks are there then. */
  makeThick(record: VolumeRecord): Promise<void>;
  /** Gives back blocks that were never written. @throws FailedPrecondition if they are not known now */
  makeThin(record: VolumeRecord): Promise<void>;
}

/** A clone of a damaged volume, on which its filesystem is repaired. */
export interface RepairDraft {
  clone(): Promise<void>;
  /** Shows the clone as a device for the time of `work`, for a layer whose filesystems lie in it. */
  withDevice?<T>(work: (devicePath: string) => Promise<T>): Promise<T>;
  /** @throws DataLoss if it cannot be repaired */
  fix(): Promise<void>;
  /** Puts a clone of the damaged data into the trash, as a separate volume. */
  keepOriginal(original: VolumeRecord, deletion: Deletion): Promise<TrashRef>;
  /** The repaired data takes the place of the damaged. */
  replace(): Promise<void>;
  /** @returns the drafts that must be destroyed */
  discard(): Promise<TrashRef[]>;
}
