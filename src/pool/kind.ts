import type { DiskQueue } from '../kernel/call/disk-queue.ts';
import type { SectionReader } from '../settings/section.ts';
import type { Backend } from './backend.ts';
import type { MatchSection } from './location/match/criteria.ts';
import type { OtherPools } from './location/match/one-disk.ts';
import type { PoolLog } from './log.ts';
import type { Seen, SeenVolume } from './pool.ts';
import type { CommonKey, PoolSettings } from './settings.ts';
import type { Finding, PoolPlace, PoolSight, Wanted } from './sight.ts';

/**
 * A kind of pool, as the rest of the house knows it (docs/internals/kinds.md): how it is configured, opened, and looked at.
 * What only an open pool needs is loaded when one is opened.
 * @typeParam Own what only pools of this kind are configured by
 */
export interface PoolKind<Own> {
  /**
   * For kinds whose volumes every node of the cluster can reach: the name of drivers with such pools. A CSIDriver object
   * says of a name how volumes are attached and labelled, so kinds that differ in that have different names.
   */
  readonly clusterDriver?: 'files.holdfast.csi.dev' | 'disks.holdfast.csi.dev';
  /** Its home attaches volumes to nodes (`ClusterReach.publisher`). */
  readonly isAttachedByHome?: true;
  /** Parameters of classes that only this kind has. */
  readonly parameters?: readonly string[];
  /** Which of the keys that several kinds have a pool's section may have. */
  readonly commonKeys: readonly CommonKey[];
  /** Which others. */
  readonly ownKeys: readonly string[];
  /** Keys of other kinds that it has, too, but in a separate section: the key of that. */
  readonly keysBelow?: Readonly<Record<string, string>>;
  /** Reads its own keys, and reports the mistakes in them. An empty section has no mistakes, if it can be used at all. */
  read(section: SectionReader, settings: PoolSettings): Own;
  /** The things that such a pool takes on this node: no other pool may be there. */
  claims(pool: Configured<Own>, dataDirectory: string): readonly Claim[];

  /** Opens the pool's storage: finds it, makes it if it may, and locks it. The catalog is opened over it (`open.ts`). */
  open(pool: Configured<Own>, context: OpenContext): Promise<ReadyBackend>;

  /**
   * The volume that something seems to be of, by the names alone that the kernel has for it: no disk is asked, and the
   * volume's pool need not be open.
   */
  volumeByName(seen: Seen): SeenVolume | undefined;

  /** Where the configuration alone says that it is: no disk is asked. */
  place(pool: Configured<Own>, dataDirectory: string): PoolPlace;
  /** Looks at it as it is now, without a driver. Writes nothing, and locks nothing for longer than the look. */
  look(pool: Configured<Own>, request: LookRequest): Promise<PoolSight>;
  /** Checks that this node has everything that such pools need, tried for real where that leaves nothing behind. */
  checkNode(queue: DiskQueue): Promise<Finding[]>;
}

/** The configuration of a pool: the settings of all kinds, and those of its kind. */
export type Configured<Own> = PoolSettings & { readonly own: Own };

/** Sections that stand for several pools, which come and go with what they are on. */
export interface PoolSections<Own> {
  /** True if this one stands for several. It is not opened itself. */
  has(section: Configured<Own>): boolean;
  /** The pools that this node has had of such sections, whether what they are on is there now or not. */
  known(sections: readonly Configured<Own>[], dataDirectory: string): Promise<Configured<Own>[]>;
  /** Finds others, and those that come later. */
  watch(sections: readonly Configured<Own>[], context: WatchContext<Own>): Promise<PoolWatch>;
}

export interface WatchContext<Own> {
  readonly dataDirectory: string;
  readonly log: PoolLog;
  /** Devices that belong to other pools. */
  readonly named: readonly NamedDevice[];
  /** Sections with a match for one disk each, of other kinds. */
  readonly rivals: readonly MatchSection[];
  /** The number of pools that it may add. */
  readonly maxPools: number;
  /** Opens a pool, which is one of the node's from then on if that succeeds. @returns why it does not */
  add(pool: Configured<Own>): Promise<unknown>;
}

export interface NamedDevice {
  readonly poolName: string;
  readonly path: string;
}

export interface PoolWatch {
  /** Resolves when the disks that are there now were found, and each of them is open or passed over; then it continues in the background. */
  start(): Promise<void>;
  stop(): void;
}

/** A path that belongs to one pool alone. */
export interface Claim {
  /** Normalised. */
  readonly path: string;
  readonly type: 'directory' | 'device' | 'file';
  /** The key of the section that names it; undefined: it follows from the pool's name. */
  readonly key: string | undefined;
}

export interface OpenContext {
  /** The driver's own directory, HOLDFAST_DATA. */
  readonly dataDirectory: string;
  /** The name of this node. */
  readonly nodeName: string;
  /** The time to wait for another driver to let the pool go. */
  readonly lockTimeoutMs: number;
  /** Once aborted, the lock is not waited for any more. */
  readonly stopping?: AbortSignal | undefined;
  readonly queue: DiskQueue;
  readonly log: PoolLog;
  /** For pools that are found by a match. */
  readonly others?: OtherPools | undefined;
  /** The variables of the environment by which programs for clouds are configured. */
  readonly environment?: Readonly<Record<string, string | undefined>> | undefined;
}

/** Storage that is open, and this driver's alone. */
export interface ReadyBackend {
  readonly backend: Backend;
  /** The fields for the log beside the pool's name: its id, and where it is. */
  readonly facts: Readonly<Record<string, unknown>>;
}

export interface LookRequest extends Pick<OpenContext, 'environment'> {
  readonly dataDirectory: string;
  readonly wanted: Wanted;
  readonly queue: DiskQueue;
  /** For pools that are found by a match. */
  readonly others?: OtherPools | undefined;
}
