import type { Descriptor } from '../kernel/call/descriptor.ts';
import type { DiskQueue } from '../kernel/call/disk-queue.ts';
import type { DeviceNumber } from '../kernel/device.ts';
import type { ByteRange } from '../kernel/file/sparse.ts';
import type { MountAttributes, MountParameter } from '../kernel/mount/mount.ts';
import type { Mount } from '../kernel/mount/mount-table.ts';
import { type AccessMode, isMultiNode, singleNodeModes, type VolumeContent } from '../volume/capability.ts';
import { type Encryption, type EncryptionType, luksHeaderBytes, newEncryption } from '../volume/encryption.ts';
import type { FilesystemType, ServedType } from '../volume/filesystem.ts';
import { type GroupId, type SnapshotId, type VolumeId, volumeIdFor } from '../volume/id.ts';
import { defaultLayout, type Layout } from '../volume/layout.ts';
import type { Ephemeral, Provisioning, Publication, VolumeRecord, VolumeSource } from '../volume/record.ts';
import type { Secrets } from '../volume/secrets.ts';
import type { GroupRecord, SnapshotRecord } from '../volume/snapshot-record.ts';
import type { Trimming } from '../volume/trimming.ts';
import type { WipePolicy } from '../volume/wipe-policy.ts';
import type { PoolMoves } from './moves.ts';
import type { VolumeContext } from './node-side.ts';

/** The abilities of a kind of pool, as data: services ask this, never the kind's name. */
export interface Traits {
  readonly block: boolean;
  /** Volumes that are directories, without separate filesystems. */
  readonly directories: boolean;
  readonly filesystems: readonly FilesystemType[];
  /** The first is for volumes that do not say. */
  readonly provisioning: readonly Provisioning[];
  /**
   * The way in which a snapshot or clone is made. reflink: at once, sharing blocks, also of a volume in use. copy: byte
   * by byte, of a volume that is not in use.
   */
  readonly snapshots: 'reflink' | 'copy' | 'none';
  /** Set: they are copies wherever the pool lies, not for want of a filesystem whose files can share blocks. */
  readonly copiesAlways?: true;
  /** Set: several volumes cannot be taken at one instant. */
  readonly hasNoGroups?: true;
  /** The knowledge about snapshots without reading them. allocated: the ranges with data. delta: also the changed ones. */
  readonly changedBlocks: 'allocated' | 'delta' | 'none';
  readonly expansion: { readonly online: boolean; readonly offline: boolean };
  /** The types of encryption for its volumes; unset: none. */
  readonly encryption?: readonly EncryptionType[];
  /** The layouts of its volumes over several disks; unset: that is not its own matter. */
  readonly layouts?: readonly Layout[];
  /** The ways to wipe a volume's data that a class can choose; unset: a class has no choice. */
  readonly wipes?: readonly WipePolicy[];
  /** The end of a device when its volume is unmounted. automatic: it goes with its last user. explicit: `detach`. */
  readonly detaching: 'automatic' | 'explicit';
  /** The pieces that it gives space in; sizes are multiples of them. Unset: of 4096 bytes. */
  readonly granularityBytes?: bigint | undefined;
  /** A pool is one volume, which takes all of it: that is its one piece. */
  readonly isOneVolume?: true;
  /** For volumes that are directories of a server: the names that requests have for its filesystem. */
  readonly servedTypes?: readonly ServedType[];
  /** Parameters of classes that only this kind has; unset: none. */
  readonly parameters?: readonly string[];
  /** The access modes that its volumes can be made for; unset: those of storage on one node's disk. */
  readonly accessModes?: readonly AccessMode[];
}

/** Returns the reason why volumes with these traits cannot be made for these modes; undefined: they can. */
export function whyNotModes(
  { accessModes = singleNodeModes }: Pick<Traits, 'accessModes'>,
  modes: readonly AccessMode[],
): string | undefined {
  const refused = modes.find((mode) => !accessModes.includes(mode));
  if (refused === undefined) return undefined;
  return accessModes.some(isMultiNode)
    ? `access_mode ${refused} is not supported by this pool: ask for one of ${accessModes.join(', ')}`
    : `access_mode ${refused} is not supported by storage on one node's disk: ask for ReadWriteOnce`;
}

/** A pool whose volumes every node of the cluster can reach. One process at a time has it: its home. */
export interface ClusterReach {
  /** The pool's own id, which lies in its storage: the ids of volumes are made from it, not from a node's name. */
  readonly id: string;
  /**
   * The volume_context of such a volume, beside its kind and version: always the same, small, without secrets, and
   * enough for a node that knows no records (`NodeKind.read`).
   */
  contextOf(record: VolumeRecord): VolumeContext;
  /** Attaches its volumes to nodes; unset: nodes do that themselves. */
  readonly publisher?: Publisher | undefined;
  /** The part of the cluster from which a volume can be reached; unset: all of it. */
  topologyOf?(record: VolumeRecord): Readonly<Record<string, string>> | undefined;
  /** Chooses where a volume is made. @throws InvalidArgument, ResourceExhausted */
  zoneFor?(requirement: TopologyRequirement | undefined): string;
  /** Answers if volumes can be made from a snapshot; unset: always. */
  isSnapshotReady?(id: SnapshotId): Promise<boolean>;
}

/** publish_context. */
export type PublishContext = Readonly<Record<string, string>>;

/** For volumes that something outside of the nodes attaches to them. Each method can be called again at any time. */
export interface Publisher {
  /** @throws NotFound if there is no such node */
  requireNode(nodeId: string): Promise<void>;
  /** Returns once the node has it. @throws FailedPrecondition if another node has it */
  publish(record: VolumeRecord, nodeId: string): Promise<PublishContext>;
  /** Returns once the node no longer has it; undefined: no node. Also of a volume whose record is not known here. */
  unpublish(id: VolumeId, nodeId: string | undefined): Promise<void>;
  /** Answers if the node has a volume that was published to it, as far as is known since the volume was last read. */
  isPublished(id: VolumeId, nodeId: string): boolean;
  /** Answers if a handle that a person wrote can be one of its volumes. */
  reaches(handle: string): boolean;
  publishProvided(handle: string, nodeId: string): Promise<PublishContext>;
  unpublishProvided(handle: string, nodeId: string | undefined): Promise<void>;
}

/** The topology that a volume must meet: one of `requisite`, and the first of `preferred` that can be. */
export interface TopologyRequirement {
  readonly requisite: readonly Readonly<Record<string, string>>[];
  readonly preferred: readonly Readonly<Record<string, string>>[];
}

/** The id that a name has in a pool. */
export function volumeIdIn(
  { cluster, name }: Pick<Pool, 'cluster' | 'name'>,
  nodeId: string,
  volumeName: string,
): VolumeId {
  return cluster === undefined ? volumeIdFor(nodeId, name, volumeName) : volumeIdFor('cluster', cluster.id, volumeName);
}

/** Sizes of volumes are multiples of this. Where there is one piece, encryption takes its space from that. */
export function sizeMultiple(
  { granularityBytes, isOneVolume }: Pick<Traits, 'granularityBytes' | 'isOneVolume'>,
  encryption: EncryptionType | undefined,
): bigint | undefined {
  if (isOneVolume !== true || encryption === undefined || granularityBytes === undefined) return granularityBytes;
  return granularityBytes - BigInt(luksHeaderBytes);
}

/** The space for a new volume's encryption beside its size. */
export function encryptionIn({ granularityBytes, isOneVolume }: Traits, type: EncryptionType): Encryption {
  return newEncryption(type, isOneVolume === true ? undefined : granularityBytes);
}

/** The provisioning of a volume that does not name one. */
export function defaultProvisioning({ provisioning: [first] }: Pick<Traits, 'provisioning'>): Provisioning {
  return first ?? 'thin';
}

/** A pool of files lies on one disk, as it sees it. */
export function hasLayout({ layouts = [defaultLayout] }: Pick<Traits, 'layouts'>, layout: Layout): boolean {
  return layouts.includes(layout);
}

/** A volume to be made; every field is checked and final. */
export interface VolumeSpec {
  readonly id: VolumeId;
  readonly name: string;
  readonly sizeBytes: bigint;
  readonly content: VolumeContent;
  readonly accessModes: readonly AccessMode[];
  readonly provisioning: Provisioning;
  /** Arguments for mkfs, already checked against the list of harmless ones (`command/mkfs-options.ts`). */
  readonly mkfsArguments: readonly string[];
  readonly parameters: Readonly<Record<string, string>>;
  readonly mutableParameters?: Readonly<Record<string, string>> | undefined;
  /** undefined: as the pool has it. */
  readonly undeleteSeconds?: number | undefined;
  /** An ephemeral volume is removed when the pool is opened and nothing on this node uses it. */
  readonly ephemeral?: Ephemeral | undefined;
  /** Ignored for clones: a clone is encrypted as its source is. */
  readonly encryption?: EncryptionType | undefined;
  /** undefined: linear. */
  readonly layout?: Layout | undefined;
  /** undefined: as what it is made from, or as the pool has it. */
  readonly wipe?: WipePolicy | undefined;
  /** The secrets for its encryption. Never kept. */
  readonly secrets?: Secrets | undefined;
  /** For storage that has zones. */
  readonly zone?: string | undefined;
}

/** The way in which a volume is made reachable. */
export interface AttachOptions {
  /** It stays so until `detach`; otherwise until its last user goes. */
  readonly persistent: boolean;
  /** The secrets to open an encrypted volume. */
  readonly secrets?: Secrets | undefined;
  /** ControllerPublishVolume says that no other node ever had the volume: if it is blank it may be formatted. */
  readonly isFirstUse?: boolean;
  /** Nothing will be written to it: by the access mode, or by a mount flag. */
  readonly isReadonly?: boolean;
}

/** A volume to be made of what lies at a path already; every field is checked. */
export interface AdoptionSpec extends Pick<VolumeSpec, 'id' | 'name' | 'accessModes' | 'parameters'> {
  readonly path: string;
  /** undefined: more than it takes now. */
  readonly sizeBytes: bigint | undefined;
}

/** The properties of a volume that can be changed later (ControllerModifyVolume); absent: as it is. */
export interface VolumeChanges {
  readonly provisioning?: Provisioning | undefined;
  readonly undeleteSeconds?: number | undefined;
}

/** A deleted volume that can still be brought back. */
export interface TrashedVolume {
  readonly record: VolumeRecord;
  /** RFC 3339, UTC. */
  readonly deletedAt: string;
  /** When it is removed permanently, unless its space is needed before; RFC 3339, UTC. */
  readonly purgeAt: string;
  readonly usedBytes: bigint;
  /** It moved out of this pool then: this is an earlier copy of it. */
  readonly isLeft: boolean;
}

/** A snapshot to be cut; every field is checked. */
export interface SnapshotSpec {
  readonly id: SnapshotId;
  readonly name: string;
  readonly sourceId: VolumeId;
  readonly parameters: Readonly<Record<string, string>>;
}

export interface ListedSnapshot extends SnapshotRecord {
  /** The copy is the snapshot no more, and no other node may have that. */
  readonly isLeft?: true;
}

/** The identity of a group of snapshots. */
export interface GroupSpec {
  readonly id: GroupId;
  readonly name: string;
  readonly parameters: Readonly<Record<string, string>>;
}

/** Which bytes of a snapshot to tell. */
export interface ChangedRangesRequest {
  /** An older snapshot of the same volume; undefined: tell all bytes that hold data. */
  readonly base: SnapshotId | undefined;
  readonly target: SnapshotId;
  /** Where to begin; earlier ranges are left out. */
  readonly fromBytes: bigint;
  /** Aborted when the rest is not wanted; then an error ends the ranges. */
  readonly signal: AbortSignal;
}

/** A device of a volume, as the kernel knows it. */
export interface AttachedDevice {
  /** The device's node, by the kernel's own name, as in /sys: `/dev/loop3`, `/dev/dm-2`. */
  readonly devicePath: string;
  readonly device: DeviceNumber;
  readonly readonly: boolean;
}

/** One way in which a volume can be reached on this node. */
export type Attached =
  | ({ readonly kind: 'device' } & AttachedDevice)
  /** It is bind-mounted. The path has no symbolic links in it. */
  | {
      readonly kind: 'directory';
      readonly path: string;
      /** Where its kind keeps it mounted for the driver alone: mounts there are no use of the volume. */
      readonly keptAt?: readonly string[] | undefined;
    }
  /** It is mounted as it is. The options are the pool's own, each a word as mount(8) takes it after -o. */
  | {
      readonly kind: 'mountable';
      readonly fsType: string;
      readonly source: string;
      readonly options: readonly string[];
    };

interface Held {
  /**
   * Lets go of what kept the volume reachable while nothing used it. Call it once the volume is mounted (then the last
   * unmount ends it) or when the work failed (then it ends at once), unless only `detach` ends it (`Traits.detaching`).
   */
  release(): Promise<void>;
}

interface HeldOpen extends Held {
  /** The device or directory, open until it is released: a device for reading, a directory for its path alone (O_PATH). */
  readonly descriptor: Descriptor;
}

/** The result of `attach`, held open. */
export type Attachment =
  | (Extract<Attached, { kind: 'device' | 'directory' }> & HeldOpen)
  | (Extract<Attached, { kind: 'mountable' }> & Held & Partial<OwnMount>);

/** For what takes more than one call of the kernel to be mounted. */
export interface OwnMount {
  /** Mounts it on an open directory, with these attributes and the parameters that the volume's user asks for. */
  mountAt(target: Descriptor, how: MountedHow): Promise<void>;
}

export interface MountedHow {
  readonly attributes: MountAttributes;
  readonly parameters: readonly MountParameter[];
}

/** Something that can be seen on this node, as the kernel tells of it: a device's node, or a mount. */
export interface Seen {
  /** The device of the node, or of the mounted filesystem; undefined: that lies on no block device. */
  readonly device: DeviceNumber | undefined;
  /** undefined: a device's node. */
  readonly mount: Pick<Mount, 'device' | 'fsType' | 'root' | 'source'> | undefined;
}

/** The pool's knowledge of something that is seen. */
export interface SeenVolume {
  readonly id: VolumeId;
  /** All of the volume, not a directory in it. */
  readonly isWhole: boolean;
}

/** The part of a filesystem to trim. */
export interface TrimOptions {
  readonly fromBytes: bigint;
  /** No slice is begun after it, but the first. */
  readonly budgetMs: number;
}

export interface PoolCapacity {
  /** The capacity of the pool if it were empty. */
  readonly totalBytes: bigint;
  /** The bytes that are provisioned to existing volumes. */
  readonly provisionedBytes: bigint;
  /** The bytes that volumes, snapshots and the trash take on disk now, each block once. */
  readonly usedBytes: bigint;
  /** The bytes that can still be provisioned (GC04): the same figure that `create` measures a request by. */
  readonly availableBytes: bigint;
  /** The same for thick volumes, which take their blocks at once: less, where more is provisioned than there is. */
  readonly thickAvailableBytes: bigint;
}

/** The usage of the disk, also by foreign data. */
export interface DiskUsage {
  readonly diskBytes: bigint;
  /** The bytes that can be written to it. */
  readonly freeBytes: bigint;
  /** The part of that which volumes may still take: without overcommit, and unless others fill the disk, it is free. */
  readonly claimableBytes: bigint;
  /** The bytes of snapshots alone: without them they would be free. */
  readonly snapshotBytes: bigint;
  /** The space that notes where data lies, where it can run out separately: that of a thin pool. */
  readonly metadata?: { readonly usedBytes: bigint; readonly totalBytes: bigint };
}

/** The figures of a pool for monitoring. */
export interface PoolUsage {
  readonly capacity: PoolCapacity;
  readonly disk: DiskUsage;
  /** True if its disk is about to run full, also of foreign data: then writes to volumes may fail. */
  readonly isNearlyFull: boolean;
  /** All of them, ephemeral ones too. */
  readonly volumes: readonly VolumeUsage[];
  readonly snapshots: number;
  readonly trash: { readonly volumes: number; readonly usedBytes: bigint };
  /** The bytes of deleted data that are still to wipe. */
  readonly wipingBytes: bigint;
  /** Volumes, snapshots and groups whose records cannot be read. */
  readonly damagedRecords: number;
}

export interface VolumeUsage {
  readonly record: VolumeRecord;
  /** The space that its data takes on disk now. */
  readonly usedBytes: bigint;
  /** Devices or directories through which it is reachable on this node. */
  readonly devices: number;
}

/** The total and the used part of something that is counted. */
export interface Figures {
  readonly total: bigint;
  readonly used: bigint;
  /** The part that is still available: less than the rest of the quota where the disk has less. */
  readonly available: bigint;
}

/** The part of its quota that a volume has used. */
export interface QuotaUsage {
  readonly bytes: Figures;
  /** undefined: they are not counted. */
  readonly inodes: Figures | undefined;
}

export interface Condition {
  readonly abnormal: boolean;
  /** At most 128 bytes (L07). */
  readonly message: string;
}

/**
 * A place on one node that volumes are made from. Implementations keep every promise of the design without help:
 * each method is idempotent, safe against kill -9 at any step, and throws the errors of `volume/errors.ts`.
 * Calls for one volume id are never concurrent, except that a pool which copies may be asked for several copies of one
 * volume at a time: the services see to that (`volume/flow/object-queue.ts`).
 */
/** Hears what a health check waits for. */
export interface HealthWatch {
  /** @param what for people: `its disk /dev/sdb` @returns to be called once it has answered, be it an error */
  waitsFor(what: string): () => void;
}

export interface Pool {
  readonly name: string;
  readonly kind: string;
  readonly traits: Traits;
  /** undefined: its volumes lie on this node. */
  readonly cluster?: ClusterReach | undefined;
  /** For requests that name none (A06). */
  readonly defaultFilesystem: FilesystemType;
  /** The interval at which mounted filesystems are trimmed; unless it is off, each is also before it is unmounted. */
  readonly trimming: Trimming;
  /** Where blocking calls to this pool's disk run, and where mounts of its volumes are made. */
  readonly queue: DiskQueue;
  /** undefined: its volumes do not move to other pools. */
  readonly moves?: PoolMoves | undefined;

  /**
   * Makes the volume, durably, before it returns: blank or formatted, or with the content of a snapshot or volume of
   * this pool, which must be no larger. The id must not exist. @throws ResourceExhausted, NotFound
   */
  create(spec: VolumeSpec, source?: VolumeSource): Promise<VolumeRecord>;
  /**
   * Makes a volume of what lies at a path of the pool's own storage, as it is, without copying it. The id must not exist.
   * Before it is one, nothing has changed about it.
   * @throws NotFound, InvalidArgument, FailedPrecondition, ResourceExhausted
   */
  adopt(spec: AdoptionSpec): Promise<VolumeRecord>;
  /**
   * The reverse: its data lies at a path, and the volume is gone. undefined: at the path that it came from.
   * @returns the path
   * @throws NotFound, InvalidArgument, AlreadyExists, FailedPrecondition: then it is as it was
   */
  release(id: VolumeId, path: string | undefined): Promise<string>;
  find(id: VolumeId): Promise<VolumeRecord | undefined>;
  /**
   * Records with an id greater than `after`, by id; at most `limit` (undefined: all). Without ephemeral volumes, which
   * concern only the maker of their mount.
   */
  list(after: VolumeId | undefined, limit: number | undefined): Promise<VolumeRecord[]>;
  /** The others. Nothing is looked at. */
  listEphemeral(): Promise<VolumeRecord[]>;
  /**
   * Durably gone when it returns, into the trash if it is kept there for a time; unknown ids are fine.
   * @throws FailedPrecondition while attached on this node
   */
  remove(id: VolumeId): Promise<void>;
  /** All or nothing, and the same again is fine. @throws ResourceExhausted, FailedPrecondition */
  modify(id: VolumeId, changes: VolumeChanges): Promise<VolumeRecord>;
  /**
   * Notes, durably, which node the volume is published to, and which others; undefined: none. The same again is fine.
   * @throws NotFound, FailedPrecondition if it would be none while attached on this node
   */
  setPublication(
    id: VolumeId,
    publication: Publication | undefined,
    others?: readonly Publication[],
  ): Promise<VolumeRecord>;
  /** Deleted volumes that can be brought back, the one deleted last first. */
  trash(): Promise<TrashedVolume[]>;
  /** Brings the volume deleted last under this id back, as it was. @throws NotFound, AlreadyExists, ResourceExhausted */
  restore(id: VolumeId): Promise<VolumeRecord>;
  /** Before that. @throws what it would throw; nothing is changed */
  requireRestorable(id: VolumeId): Promise<void>;
  /** Ends the time in the trash: of all that was deleted under this id, or of everything. Returns what went. */
  purge(id?: VolumeId): Promise<VolumeId[]>;
  /** Makes the volume, and its device where attached, at least this large; never smaller. @throws ResourceExhausted */
  grow(id: VolumeId, sizeBytes: bigint): Promise<VolumeRecord>;

  /**
   * Cuts snapshots of volumes of this pool at one instant: mounted filesystems are frozen, all images cloned, and thawed
   * (GR07). All or nothing; with `group` they exist only together. The ids must not exist.
   * @throws NotFound, ResourceExhausted, FailedPrecondition
   */
  takeSnapshots(specs: readonly SnapshotSpec[], group?: GroupSpec): Promise<SnapshotRecord[]>;
  findSnapshot(id: SnapshotId): Promise<SnapshotRecord | undefined>;
  /**
   * Like `list`, for snapshots; those of one volume if `sourceId` is given.
   * @param withLeft also the copies that were left: as long as no pool has the snapshot, it waits for the end of its move
   */
  listSnapshots(
    after: SnapshotId | undefined,
    limit: number | undefined,
    sourceId?: VolumeId,
    withLeft?: boolean,
  ): Promise<ListedSnapshot[]>;
  /** Durably gone when it returns; unknown ids are fine. Not for members of a group. */
  removeSnapshot(id: SnapshotId): Promise<void>;
  /**
   * The ranges in which `target` may differ from `base`: in order, never touching, and never one too few (SM14). Once
   * the first is there, removing the snapshots changes nothing about the rest, or ends it. @throws NotFound
   */
  changedRanges(request: ChangedRangesRequest): AsyncIterable<ByteRange>;
  findGroup(id: GroupId): Promise<GroupRecord | undefined>;
  /** The group and all its members. */
  removeGroup(id: GroupId): Promise<void>;

  /**
   * Repairs the filesystem of a volume that is not attached, so that nothing is lost if that goes wrong: on a clone, which
   * then takes the volume's place, while the original is kept in the trash under a separate name.
   * @throws DataLoss if it cannot be repaired, or not cloned in this pool: then nothing has changed
   */
  repair(id: VolumeId, fsType: FilesystemType, secrets?: Secrets): Promise<void>;

  /**
   * Makes the volume reachable on this node; in the same way again if it already is.
   * `persistent`: it stays so until `detach`; otherwise until its last user goes, or until `detach` (`Traits.detaching`).
   */
  attach(id: VolumeId, options: AttachOptions): Promise<Attachment>;
  /** The ways in which the volume is reachable on this node now. */
  attached(id: VolumeId): Promise<Attached[]>;
  /** The same, with what keeps it in use where this process does not see it: in another mount namespace. Takes longer. */
  inUse(id: VolumeId): Promise<readonly Attached[]>;
  /** Undoes an attach that does not end automatically; an attachment that is no longer this pool's is left alone. */
  detach(attached: Attached): Promise<void>;
  /** Ends the freeze of its filesystem if that is mounted nowhere any more, so that no other program could. */
  endUnseenFreeze(id: VolumeId): Promise<void>;
  /** Empties the log of its mounted filesystem, of which this is a directory (`growMounted`). */
  settleFilesystem(id: VolumeId, directory: Descriptor): Promise<void>;
  /** Which of this pool's volumes it is that is seen, known to the records or not. */
  volumeSeen(seen: Seen): Promise<SeenVolume | undefined>;
  /** The same by what the kernel alone knows, for a disk that cannot be asked; also of volumes that are other pools'. */
  readonly rescue: Pick<Pool, 'attached' | 'detach' | 'volumeSeen'>;

  /**
   * Gives back to the pool what the mounted filesystem of a thin volume has freed since, a slice at a time.
   * @returns where to go on when the budget was used up; undefined: there is no more, or nothing to be gained
   */
  trim(id: VolumeId, options: TrimOptions): Promise<bigint | undefined>;

  /** @param layout of new volumes: their capacity is a sum of sizes, not of all the space that they take */
  capacity(layout?: Layout): Promise<PoolCapacity>;
  /** Opens no device, so it does not disturb other programs. */
  usage(): Promise<PoolUsage>;
  /** The pool's count of its users' writes; undefined: only the mounted filesystem has that count. */
  quotaUsage(id: VolumeId): Promise<QuotaUsage | undefined>;
  condition(id: VolumeId): Promise<Condition>;
  /** Writes a little to the pool's disk, durably; fails or hangs as the disk does. Runs in this queue, not in the pool's. */
  checkHealth(queue: DiskQueue, watch: HealthWatch): Promise<void>;
  /**
   * Leaves everything as it is, as a kill -9 would, but for what this process alone holds: the pool's lock, timers. For a
   * pool whose queue has been closed; waits for nothing.
   */
  abandon(): void;
  /** Finishes what runs and lets the pool go. Volumes in use stay in use. */
  close(): Promise<void>;
}
