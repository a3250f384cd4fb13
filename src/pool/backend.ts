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
import type { Deletion, TrashContents, TrashEntry, TrashRef } from './catalog/trash-entry.ts';
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
 * What a kind of pool writes; docs/kinds.md tells how. Everything else, the catalog does once for all kinds
 * (`catalog/`): ids, replays, the trash, groups, space, and what a crash has left.
 *
 * Each method is durable when it returns, and safe to repeat after a crash at any point in it. The catalog never calls
 * two of them for one object at a time. Errors of the disk are thrown as they are (`kernel/call/errno.ts`).
 */
export interface Backend {
  /** As in the configuration: `image`. */
  readonly kind: string;
  readonly traits: Traits;
  /** Where the blocking calls to its disk run. */
  readonly queue: DiskQueue;
  readonly records: RecordStore;
  readonly provisioner: Provisioner;
  readonly attacher: Attacher;
  /** How snapshots are made; without one there are none, nor clones. */
  readonly snapshotter?: Snapshotter | undefined;
  readonly space: SpaceSource;
  readonly extras: Extras;
  /** For kinds whose volumes every node of the cluster can reach. */
  readonly cluster?: ClusterReach | undefined;
  /** The logical block size of a new volume's device. */
  blockSizeOf(spec: Pick<VolumeSpec, 'content' | 'mkfsArguments'>): number;
  /** Writes a little, durably, in this queue; fails or hangs as the disk does. */
  probe(queue: DiskQueue, watch: HealthWatch): Promise<void>;
  /** Leaves everything as it is, as a kill -9 would, but for what this process alone holds. Waits for nothing. */
  abandon(): void;
  /** Lets the pool go. Volumes in use stay in use. */
  close(): Promise<void>;
}

/**
 * A backend over another one, which holds its data: encryption, say. What it has of its own in there, it adds to the size
 * that it asks for, and never takes from the user's.
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

/** Where the truth lies: files beside the data, tags of a volume group. A record and its data come and go as one. */
export interface RecordStore {
  readVolumes(): Promise<ReadRecords<VolumeId, VolumeRecord>>;
  readSnapshots(): Promise<ReadRecords<SnapshotId, SnapshotRecord>>;
  readGroups(): Promise<ReadRecords<GroupId, GroupRecord>>;
  /** One record again; none if what it is of is not there. */
  readVolume(id: VolumeId): Promise<ReadRecords<VolumeId, VolumeRecord>>;
  readSnapshot(id: SnapshotId): Promise<ReadRecords<SnapshotId, SnapshotRecord>>;
  readGroup(id: GroupId): Promise<ReadRecords<GroupId, GroupRecord>>;
  /** What lies in the trash, all of it or what had one id. */
  readTrash(id?: VolumeId | SnapshotId): Promise<TrashContents>;
  /** Replaces the record of a volume as a whole, however full the pool is. */
  writeVolume(record: VolumeRecord): Promise<void>;
  /** From then on the group and its members exist. */
  writeGroup(record: GroupRecord): Promise<void>;
  removeGroup(id: GroupId): Promise<void>;
  /** Makes durable what is seen of an object now, here and in the trash. */
  sync(id: VolumeId | SnapshotId | GroupId): Promise<void>;
  /** How old the pool was when that was noted last, and by what clock (`catalog/pool-age.ts`). */
  readAge(): Promise<string | undefined>;
  writeAge(note: string): Promise<void>;
}

/** Reads records, and changes nothing: no driver needs to run. */
export type RecordReader = Pick<RecordStore, 'readVolumes' | 'readSnapshots' | 'readGroups' | 'readTrash'>;

/** A volume or snapshot on its way: nobody sees it, and it is nobody's until its commit. */
export interface Draft {
  readonly id: VolumeId | SnapshotId;
  /** Whether its commit has begun: it may exist. */
  readonly isCommitted: boolean;
  /** A name for it, without content. */
  begin(): Promise<void>;
  /** Clones data into it. The catalog keeps the source at rest for the end of that. */
  clone(source: Recorded): Clone;
  /** What it takes so far. */
  takenBytes(): Promise<bigint>;
  /** Atomically: before nothing exists, afterwards everything. */
  commit(): Promise<void>;
  /**
   * Takes it away, also if its commit failed half way. What a later try can go on with stays.
   * @returns what is to be destroyed
   */
  discard(): Promise<TrashRef | undefined>;
}

/** What a volume's data is to be: as its record says, unless a layer has something of its own in it. */
export interface NewData extends Pick<VolumeRecord, 'blockSizeBytes' | 'content' | 'provisioning' | 'sizeBytes'> {
  /** Checked against the list of harmless ones. */
  readonly mkfsArguments: readonly string[];
  /** For a layer that encrypts. */
  readonly secrets?: Secrets | undefined;
}

/** How it is made, whatever is in it. */
export interface DraftOptions extends Pick<VolumeSpec, 'layout' | 'wipe'> {
  readonly isResumable: boolean;
}

export interface VolumeDraft extends Draft {
  readonly id: VolumeId;
  /** Refuses before anything is written what a layer would refuse later: the key is missing, say. */
  check?(record: VolumeRecord, request: Pick<NewData, 'secrets'> & { readonly isClone: boolean }): Promise<void>;
  /** Its data, blank or formatted, and its record. */
  make(record: VolumeRecord, data: NewData): Promise<void>;
  /** Makes a volume of what was cloned into it: its size, an identity of its own, its record. */
  complete(record: VolumeRecord, data: Omit<NewData, 'mkfsArguments'>): Promise<void>;
  /** Shows its data as a device, to nobody else, for the time of `work`; for kinds that have devices. */
  withDevice?<T>(blockSizeBytes: number, work: (devicePath: string) => Promise<T>): Promise<T>;
}

export interface SnapshotDraft extends Draft {
  readonly id: SnapshotId;
  complete(record: SnapshotRecord): Promise<void>;
}

/** Something that has data, and what its record says of it. */
export type Recorded =
  | { readonly kind: 'volume'; readonly record: VolumeRecord }
  | { readonly kind: 'snapshot'; readonly record: SnapshotRecord };

export interface Provisioner {
  /** @param options.isResumable it takes long, and a later try is to go on with it */
  draft(id: VolumeId, options: DraftOptions): VolumeDraft;
  /** Drafts that nobody goes on with: what is to be destroyed. */
  discardDrafts(ids: ReadonlySet<VolumeId | SnapshotId>): Promise<TrashRef[]>;
  /** The same for all that a killed driver left, but for what can be gone on with. */
  leftDrafts(): Promise<TrashRef[]>;

  /** @throws DataLoss if its data is missing, or cut short: what is made from it would pass for whole */
  verify(object: Recorded): Promise<void>;
  /** What is wrong with its data, undefined: nothing. */
  conditionOf(record: VolumeRecord): Promise<Condition | undefined>;
  /** How large its data is, whatever the record says; undefined: it is missing. */
  sizeOf(id: VolumeId): Promise<bigint | undefined>;
  /** A file with the bytes of its device, for kinds that have one, attached or not. */
  dataFile?(id: VolumeId): string;
  /** Makes its data as large as the record says, or leaves it as it was. Never smaller. */
  grow(record: VolumeRecord): Promise<void>;

  /** Takes a volume out of sight, atomically: it can be brought back if `deletion` is noted with it. Gone is fine. */
  removeVolume(id: VolumeId, deletion: Deletion | undefined): Promise<Removed>;
  removeSnapshot(id: SnapshotId): Promise<TrashRef>;
  /** The volume is as if it had never been deleted. */
  restore(entry: TrashEntry): Promise<void>;
  /** Notes anew when something in the trash was deleted. */
  mark(ref: TrashRef, deletion: Deletion): Promise<void>;
  /** From then on it cannot be brought back. */
  unmark(ref: TrashRef): Promise<void>;
  isMarked(ref: TrashRef): Promise<boolean>;
  /** Gone is fine. */
  destroy(ref: TrashRef, how: Destruction): Promise<void>;
  /** Opens data in the trash to be written over; undefined: it is gone. For kinds with devices. */
  openInTrash?(ref: TrashRef): Promise<Descriptor | undefined>;
  /** Of a layer that encrypts: from then on nobody can read it, whatever becomes of its blocks. Gone is fine. */
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
  /** Somebody waits for its space. */
  readonly isNeeded: boolean;
  /** Others may share its blocks. */
  readonly isShared: boolean;
  /** Aborted when the pool is closed: what is not destroyed by then, the next opening destroys. */
  readonly signal: AbortSignal;
}

/** A clone on its way. */
export interface Clone {
  /** Does what can be done while the source is written to. Done again, it does anew what has changed meanwhile. */
  goAhead(signal?: AbortSignal): Promise<void>;
  /** The source's content as it is now. */
  complete(end: CloneEnd): Promise<void>;
}

export interface CloneEnd {
  /** Whether nothing writes to the source until it is done. Else the clone must be of one instant by itself. */
  readonly isAtRest: boolean;
  /** Aborted when nobody wants the clone any more. */
  readonly signal?: AbortSignal | undefined;
}

export interface Snapshotter {
  draft(id: SnapshotId): SnapshotDraft;
}

export interface Attacher {
  /** @throws DataLoss */
  attach(record: VolumeRecord, options: AttachOptions): Promise<Attachment>;
  /** Its devices; a directory or something mountable is attached for as long as it is mounted. */
  attached(id: VolumeId): Promise<Attached[]>;
  /** What keeps the volume in use: what is about to go gets a moment. */
  inUse(id: VolumeId): Promise<readonly Attached[]>;
  /**
   * Nothing of it is mounted in this mount namespace. If somebody has it open all the same, it goes with its last user, or
   * stays for a later call: that is no error. What is no longer this pool's is left alone.
   */
  detach(attached: Attached): Promise<void>;
  /** Known to the records or not. */
  volumeSeen(seen: Seen): Promise<SeenVolume | undefined>;
  /** What is attached of all volumes whose data is there. */
  all(): Promise<Attached[]>;
  /** How often each volume is attached, without opening anything. */
  counts(): Promise<ReadonlyMap<string, number>>;
  /** Detaches what nobody can see: a driver was killed before it had shown it. */
  detachOrphans(): Promise<VolumeId[]>;
  /** Its data has grown. */
  grown(id: VolumeId): Promise<void>;
  /** Its data is another one, or gone. */
  forget(id: VolumeId): void;
  /** For a disk that cannot be asked: what the kernel alone knows. */
  readonly rescue: Pick<Attacher, 'attached' | 'detach' | 'volumeSeen'>;
}

/** What a pool's storage has. */
export interface StorageSpace {
  readonly filesystemBytes: bigint;
  readonly freeBytes: bigint;
  /** What has been written to it, by whomever. */
  readonly takenBytes: bigint;
  /** Whether what was written is counted only once it is on the disk; then it must be put there before it is asked. */
  readonly isCountedLate: boolean;
  /** It has blocks, perhaps, but can hold no more files. */
  readonly isOutOfInodes: boolean;
  /** It is, by what the kind knows better than what is free tells. */
  readonly isNearlyFull?: boolean;
  /** What notes where data lies, if it can run out by itself. */
  readonly metadata?: { readonly usedBytes: bigint; readonly totalBytes: bigint };
  /** Why nothing can be made just now, however much is free; the trash is not emptied for what would fail. */
  readonly obstacle?: HoldfastError | undefined;
  /** Why nothing more fits, where sizes would not tell; the sentence goes on from the pool's name. */
  readonly whyFull?: string | undefined;
}

/** Names data of a volume or snapshot, or in the trash, to its backend. */
export type DataRef = string;

export type Counted = { readonly volumeId: VolumeId } | { readonly data: DataRef };

/** What the space ledger asks (docs/space.md). */
export interface SpaceSource {
  /** Whether clones share blocks with their sources. */
  readonly sharesBlocks: boolean;
  /** Set: nothing but volumes takes of it, so all of it can be provisioned, and it being full is nothing to be told. */
  readonly isForVolumesAlone?: true;
  /** Of a kind that has it among its own keys: how often what there is may be promised. */
  readonly overcommit?: number;
  /** Part of the reserve that is held on the disk; it goes when records need it. */
  readonly reservedBytes: bigint;
  storage(): Promise<StorageSpace>;
  /** Puts on the disk what is written, so that it counts. */
  sync(): Promise<void>;
  /** Waits until what is destroyed is free. */
  settle(): Promise<void>;
  dataOfVolume(id: VolumeId): DataRef;
  dataOfSnapshot(id: SnapshotId): DataRef;
  dataInTrash(ref: TrashRef): DataRef;
  /** Whose it was. */
  idInTrash(ref: TrashRef): VolumeId | SnapshotId | undefined;
  /** Set: where blocks lie is too much to ask, and only the records tell what may be shared. */
  readonly hasMaps?: false;
  /** Called when `allocatedBytes` of a volume, or of other data, may say something new. The ledger sets it. */
  onCounted?: ((counted: Counted) => void) | undefined;
  /** A deleted volume lies in the trash, and takes what it took. */
  moved?(from: DataRef, to: DataRef): void;
  /** Nothing of the data is left. */
  forget?(data: DataRef): void;
  /** The data was written to since it was counted last. */
  outdate?(data: DataRef): void;
  /** What is gone takes nothing. */
  allocatedBytes(data: DataRef): Promise<bigint>;
  /** How much of it others share. */
  sharing(data: DataRef): Promise<{ readonly sharedBytes: bigint; readonly unsharedBytes: bigint }>;
  /** Where its blocks lie. */
  places(data: DataRef): AsyncIterable<readonly Place[]>;
  readonly templates?: TemplateSpace | undefined;
  /** For kinds whose volumes may take more than their size, by how they lie on several disks. */
  readonly layouts?: LayoutSpace | undefined;
}

/** What volumes take on several disks. */
export interface LayoutSpace {
  /** What a new volume takes in all. */
  neededBytes(sizeBytes: bigint, layout: Layout): bigint;
  /** What a copy of it takes, however it lies itself. */
  copyBytes(data: DataRef): bigint;
  /** What it takes more once it is so large. */
  growthBytes(data: DataRef, sizeBytes: bigint): bigint;
  /** How large a volume can be that is to lie so, if it may take so much in all. */
  largestBytes(availableBytes: bigint, layout: Layout): bigint;
}

/** Filesystems that new volumes are cloned or copied from. They can go at any time. */
export interface TemplateSpace {
  readonly takenBytes: bigint;
  /** Whether there ever were any, so that volumes may share blocks with them. */
  readonly wereThere: boolean;
  /** Holds space for one that is to be made; undefined: there is too little. The catalog sets it. */
  hold: (bytes: bigint) => Promise<Disposable | undefined>;
  /** Whether the volume, just made, is a clone of one. Tells it once. */
  takeFresh(id: VolumeId): boolean;
  /** Gives up all of them: their space is needed. @returns whether there were any */
  clear(): Promise<boolean>;
}

/** What not every kind can do. */
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
  readonly repairer?: Repairer | undefined;
  /** What is being wiped of what was deleted, or waits for it. */
  readonly wipes?: (() => readonly WipeProgress[]) | undefined;
  readonly adoption?: Adoption | undefined;
  /** Why there is none, where another pool of the kind has it; the sentence goes on from the pool's name. */
  readonly noAdoption?: string | undefined;
}

/**
 * For kinds that can make a volume of what lies in their storage already, as it is, and give it back. A layer has none,
 * unless what lies there is of its own format.
 */
export interface Adoption {
  /**
   * What lies at a path. Changes nothing.
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
   * @returns what is left to be destroyed
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
  /** Of that very thing, whatever comes to lie at the path: `adopt` takes no other. */
  readonly identity: string;
  readonly content: VolumeContent;
  readonly provisioning: Provisioning;
  readonly blockSizeBytes: number;
  /** What it takes now. */
  readonly usedBytes: bigint;
  /** The only size that it can have; undefined: what is wished for. */
  readonly sizeBytes?: bigint | undefined;
}

/** For kinds in which blocks can be taken before they are written. */
export interface Thickness {
  /** All its blocks are there then. */
  makeThick(record: VolumeRecord): Promise<void>;
  /** Gives back what was never written. @throws FailedPrecondition if that cannot be told now */
  makeThin(record: VolumeRecord): Promise<void>;
}

/** Repairs a filesystem on a clone. */
export interface Repairer {
  draft(record: VolumeRecord, fsType: FilesystemType, secrets: Secrets | undefined): RepairDraft;
  /** What an operator can do where no clone can be made. */
  adviceWithoutClone(record: VolumeRecord, fsType: FilesystemType): string;
}

export interface RepairDraft {
  clone(): Promise<void>;
  /** Shows the clone as a device for the time of `work`, for a layer whose filesystems lie in it. */
  withDevice?<T>(work: (devicePath: string) => Promise<T>): Promise<T>;
  /** @throws DataLoss if it cannot be repaired */
  fix(): Promise<void>;
  /** Puts a clone of what is damaged into the trash, as a volume of its own. */
  keepOriginal(original: VolumeRecord, deletion: Deletion): Promise<TrashRef>;
  /** The repaired data takes the place of the damaged. */
  replace(): Promise<void>;
  /** @returns what is to be destroyed */
  discard(): Promise<TrashRef[]>;
}
