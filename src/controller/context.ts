import type { TopologySegments } from '../csi/parse.ts';
import type { Mover } from '../move/mover.ts';
import type { NodeKind } from '../pool/node-side.ts';
import type { Pools } from '../pool/pools.ts';
import type { ObjectQueue } from '../volume/flow/object-queue.ts';
import type { Attach, Expansion } from './capabilities.ts';

/** The dependencies of the Controller service. */
export interface ControllerContext {
  readonly nodeId: string;
  /**
   * The topology of this node: the answer of NodeGetInfo, and the topology of every volume made here (Y06). undefined:
   * every node can reach its volumes.
   */
  readonly topology: TopologySegments | undefined;
  readonly pools: Pools;
  /** Moves of volumes between the pools of this node. */
  readonly moves?:
    | Pick<Mover, 'beforeSnapshotRemoval' | 'forgetDeleted' | 'requireNotComing' | 'settleDeleted' | 'settleLeft'>
    | undefined;
  /** Shared with the node service: one call at a time for one volume. */
  readonly objects: ObjectQueue;
  readonly expansion: Expansion;
  readonly attach: Attach;
  /** Kinds of which people name volumes in PersistentVolumes; undefined: all volumes have records here. */
  readonly nodeKinds?: readonly NodeKind[] | undefined;
  /** Parameters of classes that only kinds of these pools have. */
  readonly ownParameters?: readonly string[];
  /** Volumes are never made of volumes. */
  readonly hasNoClones?: boolean;
  /** Maximum of volumes that are published to this node at a time; 0: no limit. */
  readonly maxVolumesPerNode: number;
}
