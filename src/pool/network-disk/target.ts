import type { WayToDisk } from '../../kernel/block/disk-identity.ts';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import type { DeviceNumber } from '../../kernel/device.ts';
import type { HoldfastError } from '../../volume/errors.ts';
import type { Secrets } from '../../volume/secrets.ts';
import type { VolumeOnNode } from '../node-side.ts';
import type { ConnectionNote } from './connection-notes.ts';
import type { TargetState } from './target-state.ts';

/** A device of a target on this node, as the kernel shows it. */
export interface NetworkDevice {
  readonly name: string;
  readonly devicePath: string;
  readonly device: DeviceNumber;
  readonly sizeBytes: bigint;
  /** The devices below it, each of which is a way to the same disk; undefined: it is the only one. */
  readonly paths?: readonly WayToDisk[] | undefined;
}

/** A connection to a target that carries devices of this driver's volumes. */
export interface TargetConnection {
  readonly name: string;
  readonly isLive: boolean;
  /** This driver has made it. */
  readonly isOurs: boolean;
}

/** The connections that a volume should have. */
export type VolumePaths = readonly Omit<TargetConnection, 'isOurs'>[];

export interface ConnectOptions<C> {
  readonly queue: DiskQueue;
  readonly secrets: Secrets | undefined;
  readonly state: TargetState<C>;
}

type Named = Pick<VolumeOnNode, 'context' | 'handle'>;

/** The part of a kind of network disk that differs from kind to kind. Methods that return no promise read memory alone. */
export interface Target<C> {
  /** Its nqn or iqn; for a disk of a cloud its id. */
  readonly name: string;
  /** The name's key in the log. */
  readonly nameKey: 'nqn' | 'iqn' | 'disk';
  /** The word of its users for a device: `namespace`. */
  readonly noun: string;
  /** The key for the time after which the kernel gives up a target that is away. */
  readonly lossKey: string;

  /**
   * Makes the connections that are missing, and notes each before it is made. @throws Unavailable if none works,
   * FailedPrecondition
   */
  connect(volume: Named, options: ConnectOptions<C>): Promise<void>;
  /** Ends the connections that this driver has made, and no others. Reads and writes that wait for the target fail then. */
  disconnect(queue: DiskQueue, note: ConnectionNote<C>): Promise<void>;
  /**
   * For volumes that can be given up alone: reads and writes of this one fail while its target is away, and those of others
   * wait on. @returns false: it is not possible
   */
  giveUp?(queue: DiskQueue, volume: Named, note: ConnectionNote<C>): Promise<boolean>;
  connections(note: ConnectionNote<C>): readonly TargetConnection[];

  /** For volumes that may be without a connection while the target has one. @returns undefined: this one has those of the target */
  isServed?(queue: DiskQueue, volume: Named, note: ConnectionNote<C>): Promise<boolean | undefined>;
  /** For volumes that use several connections at once: those that they should have; undefined: this one does not. */
  pathsOf?(queue: DiskQueue, volume: Named, note: ConnectionNote<C>): Promise<VolumePaths | undefined>;
  /** A fault of the node that its connections do not show, as a sentence. @param paths what `pathsOf` has returned */
  faultOf?(queue: DiskQueue, paths: VolumePaths | undefined): Promise<string | undefined>;

  /** The devices that are the volume. */
  devicesOf(volume: Named, note: ConnectionNote<C>): readonly NetworkDevice[];
  /** Devices of the volume that have lost all of their connections, and are still in use. */
  devicesLeft?(volume: Named, note: ConnectionNote<C>): readonly NetworkDevice[];
  /**
   * Removes what programs of the node have made over the volume's devices unasked, once the volume is not in use.
   * @returns a device that something holds nevertheless: it keeps a cache of the volume
   */
  heldBeyond?(queue: DiskQueue, volume: Named, note: ConnectionNote<C>): Promise<NetworkDevice | undefined>;
  /** Undoes `giveUp`, and what `heldBeyond` has done to the same end, for a volume that stays in use. */
  resume?(queue: DiskQueue, volume: Named, note: ConnectionNote<C>): Promise<void>;
  /** All devices that would go with the connections of this driver. */
  devicesOfOurs(note: ConnectionNote<C>): readonly Pick<NetworkDevice, 'devicePath'>[];
  /** Has the kernel ask the target for the volume and its size. */
  rescan(queue: DiskQueue, volume: Named, note: ConnectionNote<C>): Promise<void>;
  /**
   * For kinds whose devices are found by a place: compares an open device with the volume that it must be.
   * @returns its identity, which is noted. @throws FailedPrecondition if it is another one
   */
  identify?(queue: DiskQueue, volume: Named, device: NetworkDevice, note: ConnectionNote<C>): Promise<string>;
  /** Removes the volume's devices while other volumes keep the connections; undefined: they stay. */
  drop?(queue: DiskQueue, volume: Named, note: ConnectionNote<C>): Promise<void>;

  /** The error if the target has no such volume. */
  notThere(volume: Named): HoldfastError;
  /** The error if two devices are the volume. */
  isTwice(volume: Named, one: NetworkDevice, other: NetworkDevice): HoldfastError;
}
