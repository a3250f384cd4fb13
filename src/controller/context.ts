import type { TopologySegments } from '../csi/parse.ts';
import type { Pools } from '../pool/pools.ts';
import type { ObjectQueue } from '../volume/object-queue.ts';
import type { Attach, Expansion } from './capabilities.ts';

/** What the Controller service works with. */
export interface ControllerContext {
  readonly nodeId: string;
  /** Where this node is: what NodeGetInfo answers, and what every volume made here has (Y06). */
  readonly topology: TopologySegments;
  readonly pools: Pools;
  /** Shared with the node service: one call at a time for one volume. */
  readonly objects: ObjectQueue;
  readonly expansion: Expansion;
  readonly attach: Attach;
  /** How many volumes may be published to this node at a time; 0: any number. */
  readonly maxVolumesPerNode: number;
}
