import type { Descriptor } from '../kernel/call/descriptor.ts';
import type { DiskQueue } from '../kernel/call/disk-queue.ts';
import type { Mount } from '../kernel/mount/mount-table.ts';
import type { AccessMode, VolumeContent } from '../volume/capability.ts';
import type { Encryption } from '../volume/encryption.ts';
import type { FilesystemType, ServedType } from '../volume/filesystem.ts';
import type { VolumeHandle } from '../volume/handle.ts';
import type { Provisioning, Publication } from '../volume/record.ts';
import type { Secrets } from '../volume/secrets.ts';
import type { Trimming } from '../volume/trimming.ts';
import type { PoolCondition } from './condition.ts';
import type { PoolLog } from './log.ts';
import type { Attached, Attachment, AttachOptions, Condition, QuotaUsage, Seen, Traits, TrimOptions } from './pool.ts';
import type { Finding } from './sight.ts';

/** A volume as a node knows it: from the pool's record, or from the context that comes with the call. */
export interface VolumeOnNode {
  readonly handle: VolumeHandle;
  readonly content: VolumeContent;
  /** The modes that it was made for, or that its kind allows. */
  readonly accessModes: readonly AccessMode[];
  readonly provisioning: Provisioning;
  /** undefined: this node does not know it. */
  readonly sizeBytes?: bigint | undefined;
  readonly encryption?: Encryption | undefined;
  /** For drivers that require ControllerPublishVolume, and whose records are on this node. */
  readonly publication?: Publication | undefined;
  /** The part of volume_context that is the volume's; empty for volumes of this node's pools. */
  readonly context: VolumeContext;
}

/** volume_context without the keys that container orchestrators add. */
export type VolumeContext = Readonly<Record<string, string>>;

/** The operations of a node with one volume. The node service sees nothing else of a pool, and never its records. */
export interface VolumeAccess {
  readonly handle: VolumeHandle;
  /** For messages: the pool, or the kind and the server. */
  readonly poolName: string;
  /** For calls to the volume's disk or server, and for its mounts. */
  readonly queue: DiskQueue;
  readonly traits: Pick<Traits, 'detaching' | 'granularityBytes' | 'isOneVolume'>;
  readonly trimming: Trimming;
  /** Its data was there before: this driver has not formatted it. */
  readonly isProvided?: true | undefined;

  /**
   * Makes the volume reachable on this node; in the same way again if it already is.
   * `persistent`: until `detach`; otherwise until its last user goes, or until `detach` (`Traits.detaching`).
   */
  attach(options: AttachOptions): Promise<Attachment>;
  /** The ways in which the volume is reachable on this node now. */
  attached(): Promise<Attached[]>;
  /** Undoes an attach that does not end automatically; an attachment that is not the volume's any more is left alone. */
  detach(attached: Attached): Promise<void>;
  /** Ends the freeze of its filesystem if that is mounted nowhere any more. */
  endUnseenFreeze(): Promise<void>;
  /** Empties the log of its mounted filesystem, of which this is a directory. */
  settleFilesystem(directory: Descriptor): Promise<void>;
  /** @throws DataLoss if its filesystem cannot be repaired here: then nothing has changed */
  repair(fsType: FilesystemType, secrets?: Secrets): Promise<void>;
  /** Makes the volume's device at least this large. @returns the size that the volume has then */
  grow(sizeBytes: bigint): Promise<bigint>;
  /** @returns where to continue when the budget was used up; undefined: there is no more */
  trim(options: TrimOptions): Promise<bigint | undefined>;
  /** undefined: the mounted filesystem knows. */
  quotaUsage(): Promise<QuotaUsage | undefined>;
  /** For mounts that a process serves: answers if that has ended. Then nothing can be read from it ever again. */
  readonly isLost?: ((mount: Mount) => Promise<boolean>) | undefined;
  /** For mounts of servers that may not answer; undefined: as all others. */
  readonly unmount?: ((place: UnmountPlace) => Promise<void>) | undefined;
}

/** The place of an unmount: the uppermost mount at a name in a directory. */
export interface UnmountPlace {
  readonly parent: Descriptor;
  readonly name: string;
  readonly mount: Mount;
}

/** A volume that was found. */
export interface FoundOnNode {
  readonly access: VolumeAccess;
  readonly volume: VolumeOnNode;
}

/** A volume that is seen. */
export interface OwnedOnNode {
  readonly handle: VolumeHandle;
  /** All of the volume, not a directory in it. */
  readonly isWhole: boolean;
  /** undefined: its pool is not open. It can still be unmounted (UP08). */
  readonly access: VolumeAccess | undefined;
}

/** A mount, or the node of a device, that the node service looks at. */
export interface SeenAt extends Seen {
  /** Where it is mounted; undefined: a device's node. */
  readonly target: string | undefined;
}

/** Where the node service finds volumes: in the records of this node's pools, or in the contexts of calls. */
export interface VolumeSource {
  /** @throws NotFound, InvalidArgument if the context is not the volume's, Unavailable */
  require(handle: VolumeHandle, context: VolumeContext, demand: ContextDemand): Promise<FoundOnNode>;
  /** Like `require`, for calls without a context. @throws NotFound, Unavailable */
  requireKnown(handle: VolumeHandle): Promise<FoundOnNode>;
  /** For what must also work while the volume's pool, or its record, cannot be read (UP08). */
  findIfPossible(handle: VolumeHandle): Promise<FoundOnNode | undefined>;
  /** The volume that is seen, also if its record is gone. @param asked preferred if several volumes are the same data */
  ownerOf(seen: SeenAt, asked: string): Promise<OwnedOnNode | undefined>;
  /**
   * Before anything of the volume is attached or mounted at the path. Durable where nothing else on this node tells what
   * the volume is.
   */
  hold(found: FoundOnNode, path: string): Promise<void>;
  /** Nothing of the volume is at the path any more, nor attached for it. */
  letGo(handle: VolumeHandle, path: string): Promise<void>;
  /** Tells mounts that are no use of the volume: another volume's with the same data, or what its kind itself keeps. */
  isOfAnother(mount: Pick<Mount, 'target'>, handle: VolumeHandle): boolean;
  /** The pool's statement about a volume now. Never waits for a disk that hangs. */
  conditionOf(owned: OwnedOnNode): Promise<PoolCondition>;
}

/** The use of a volume that a call wants: the values of a hand-written PersistentVolume beside its context. */
export interface ContextDemand {
  readonly access: 'block' | 'mount';
  readonly fsType: FilesystemType | ServedType | undefined;
}

/** The abilities of a kind with cluster-wide volumes on a node, as data. */
export interface NodeTraits extends Pick<Traits, 'detaching'> {
  readonly accessModes: readonly AccessMode[];
}

/**
 * The interface that a kind implements for the nodes of a cluster, one object for each fate (`fateOf`). It knows no
 * records: all that it needs is in the volume. Each method is safe to repeat after a crash at any point in it.
 */
export interface NodeSide {
  /** For messages: `nfs server 10.0.0.1`. */
  readonly name: string;
  /** Makes the volume reachable. @throws Unavailable if its server does not answer, NotFound if it has no such volume */
  attach(volume: VolumeOnNode, options: AttachOptions): Promise<Attachment>;
  /** The ways in which it is reachable now. A mountable volume is for as long as it is mounted. Asks no server. */
  attached(volume: VolumeOnNode): Promise<Attached[]>;
  /** For kinds whose devices do not go with their last user. Nothing of it is mounted in this mount namespace. */
  detach?(volume: VolumeOnNode, attached: Attached): Promise<void>;
  /**
   * For such kinds: no pod of this node uses the volume any more, and its note goes next. The volume may still have a device.
   * Ends the connections that were made for it.
   */
  forget?(volume: VolumeOnNode): Promise<void>;
  /** For devices: asks the server how large the volume is now. @returns the size; undefined: smaller than that */
  grow?(volume: VolumeOnNode, sizeBytes: bigint): Promise<bigint>;
  /** Unmounts in a way that ends, whatever its server does: forced, then lazy. Everything it takes, in its own queue. */
  unmount?(volume: VolumeOnNode, place: UnmountPlace): Promise<void>;
  /** For mounts that a process serves: answers if that has ended. Asks no server. */
  isLost?(volume: VolumeOnNode, mount: Mount): Promise<boolean>;
  quotaUsage?(volume: VolumeOnNode): Promise<QuotaUsage | undefined>;
  /** Answers if the server does; left out: there is no server. Never waits for longer than 3 s. */
  isAnswering?(volume: VolumeOnNode): Promise<boolean>;
  /** The server's state for this volume. Never waits for the server for longer than 3 s. */
  condition?(volume: VolumeOnNode): Promise<Condition>;
}

/** The node half of a kind with cluster-wide volumes, as the registry has it (`kinds.ts`). */
export interface NodeKind {
  /** The name in the configuration, and the `kind` in volume_context. */
  readonly name: string;
  readonly traits: NodeTraits;
  /** The keys by which a context without `kind` is one of this kind: all of them must be there. */
  readonly namingKeys: readonly string[];
  /** All keys that such a context may have, beside `kind` and `version`. */
  readonly keys: readonly string[];
  /** For keys that the kind cannot know: such a context may have all that begin so. */
  readonly keyPrefix?: string | undefined;
  /**
   * Reads a context, strictly; unknown keys are refused before. @throws InvalidArgument that names the key and says what
   * to write
   */
  read(context: VolumeContext, demand: ContextDemand): ContextContent;
  /** For kinds whose handles cannot be any text. @throws InvalidArgument */
  requireHandle?(handle: VolumeHandle, context: VolumeContext): void;
  /**
   * Answers if something that is seen is the volume, or a directory in it, by what the kernel and the context alone tell:
   * no server is asked.
   */
  shows(volume: VolumeOnNode, seen: Seen): 'whole' | 'part' | undefined;
  /** The address of the server of a volume. */
  serverOf(volume: VolumeOnNode): string;
  /**
   * For devices that PersistentVolumes name: the disk, as far as the context tells. Two volumes that are one disk are not used on a
   * node at the same time: the mount, or the unstage, of one would be the other's.
   */
  diskOf?(volume: VolumeOnNode): string;
  /** The volumes that wait for each other, as far as they are not all those of one server. */
  fateOf?(volume: VolumeOnNode): string;
  /** For kinds that keep a volume mounted for the driver alone: tells such mounts. */
  isOwnMount?(target: string): boolean;
  open(context: NodeSideContext): Promise<NodeSide>;
  /**
   * Asks the server of a volume, also where no driver runs; left out: there is none. Takes at most a few seconds.
   * @returns why it cannot be used, as a sentence that goes on from its name; undefined: it answers
   */
  askServer?(volume: VolumeOnNode): Promise<string | undefined>;
  /** Checks for `holdfast doctor` that this node has what volumes of this kind need. */
  checkNode?(queue: DiskQueue): Promise<Finding[]>;
}

/** Volumes with the same answer share a `NodeSide`, a queue and a fate. */
export function fateOf(kind: NodeKind, volume: VolumeOnNode): string {
  return kind.fateOf?.(volume) ?? kind.serverOf(volume);
}

/** The facts of a volume that its context gives. */
export type ContextContent = Pick<VolumeOnNode, 'content'> &
  Partial<Pick<VolumeOnNode, 'accessModes' | 'encryption' | 'sizeBytes'>>;

export interface NodeSideContext {
  /** The answer of `serverOf`. */
  readonly server: string;
  /** The driver's own directory on this node, HOLDFAST_DATA. */
  readonly dataDirectory: string;
  /** For blocking calls that wait for this server. A call that hangs delays only volumes of this server. */
  readonly queue: DiskQueue;
  readonly log: PoolLog;
}
