import { FailedPrecondition } from '../volume/errors.ts';
import type { VolumeId } from '../volume/id.ts';
import type { MoveJob } from './job.ts';
import type { SnapshotLeavings } from './nodes/snapshot-leavings.ts';
import type { OtherNode } from './snapshots/held.ts';
import type { QueuedSource } from './turns/queued-source.ts';

/** The other nodes that volumes come from, and go to. */
export interface Peers {
  /** @throws NotConnected */
  source(from: PeerMove, signal: AbortSignal): QueuedSource;
  /** The snapshots of a volume there. @throws NotConnected */
  snapshots(from: PeerMove, signal: AbortSignal): OtherNode;
  /** The snapshots that follow their volume to other nodes. */
  readonly leavingSnapshots: Pick<SnapshotLeavings, 'cancel' | 'endReads' | 'jobOf' | 'nodeFor' | 'removing'>;
  /** The node that the volume is being moved to; undefined: none. */
  leavingFor(id: VolumeId): string | undefined;
  /** The moves to other nodes, running and ended. */
  leaving(): readonly MoveJob[];
  /** @returns undefined if it is moving to no other node. @throws FailedPrecondition once it was handed over */
  cancelLeaving(id: VolumeId, isEvenSo: boolean): Promise<CancelledLeaving | undefined>;
  /** The node that it was handed over to is lost, and the copy was taken back. */
  takenBack(id: VolumeId): Promise<void>;
  /** Before a volume that was deleted is there again. */
  wanted(id: VolumeId): Promise<void>;
  /** The node that it was handed over to has it. */
  arrived(id: VolumeId, node: string): Promise<void>;
  /** Ends the move of a volume that was deleted here. */
  forgetDeleted(id: VolumeId): Promise<void>;
}

/** A move to another node that was given up. */
export interface CancelledLeaving extends MoveJob {
  /** The pool that the volume leaves was away. */
  readonly isUnseen?: true | undefined;
}

/** A move from another node. */
export interface PeerMove {
  readonly id: VolumeId;
  readonly moveId: string;
  readonly node: string;
}

/** The order of a move from another node. */
export interface PeerOrder extends PeerMove {
  readonly ticket: string;
  /** undefined: the pool of the same name, else the default one, else any that can have it. */
  readonly to: string | undefined;
  readonly limitBytesPerSecond: bigint | undefined;
  /** Its snapshots there follow it. If the volume is here already, those alone. */
  readonly withSnapshots?: boolean | undefined;
}

/** The copy of a volume that a node has. */
export interface CopySight {
  /** Every copy of an earlier one is an earlier copy, also where there is none here by now. 0: nothing is known of any. */
  readonly generation: number;
  /** It is the volume, fenced or not. */
  readonly isVolume: boolean;
  /** False: no pool has a copy. undefined: the driver is older, and does not say it. */
  readonly isHere?: boolean | undefined;
  /** The other node that may have the volume, if there is no copy here, or none that is the volume. */
  readonly elsewhere?: string | undefined;
  /** When the volume was made, in RFC 3339: copies of one volume say the same. */
  readonly createdAt?: string | undefined;
  /** The copy in the trash that a restore takes; undefined: there is none, or no later one than that which is here, or the driver is older. */
  readonly trashed?: TrashedCopy | undefined;
}

export interface TrashedCopy extends Pick<CopySight, 'createdAt' | 'generation'> {
  /** The other node that may have the volume. */
  readonly elsewhere?: string | undefined;
}

/** The time for a few short calls at the source. */
export const planMs = 30_000;

/** @throws FailedPrecondition where volumes move between the pools of this node only */
export function requirePeers(peers: Peers | undefined): Peers {
  if (peers !== undefined) return peers;
  throw new FailedPrecondition('this node moves no volumes from other nodes: HOLDFAST_MOVE_ADDRESS is not set.');
}

/** The snapshots of a volume at the node that it leaves, for a few short calls. */
export function snapshotsAt(peers: Peers | undefined, { id, moveId, node }: PeerMove): OtherNode {
  return requirePeers(peers).snapshots({ id, moveId, node }, AbortSignal.timeout(planMs));
}
