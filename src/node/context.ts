import type { DiskQueue } from '../kernel/call/disk-queue.ts';
import type { VolumeSource } from '../pool/node-side.ts';
import type { Pools } from '../pool/pools.ts';
import type { ObjectQueue } from '../volume/flow/object-queue.ts';
import type { LateRemovals } from './ephemeral/late-removals.ts';
import type { Notes } from './notes.ts';

/** The shared tools of every operation of the node service. */
export interface NodeContext {
  readonly volumes: VolumeSource;
  /** undefined: this process has no pools to make inline volumes in. */
  readonly inline: InlineContext | undefined;
  /** For the directories of the container orchestrator, which lie on no pool. */
  readonly queue: DiskQueue;
  /** Only under these directories is anything mounted, made or removed. */
  readonly targetRoots: readonly string[];
  /** One call at a time for one path: two volumes must not be stacked on it (PB18). */
  readonly paths: ObjectQueue;
  /** With `attach: required`, this node's id: a staged volume must have been published to it. */
  readonly attachedTo: string | undefined;
  notes(): Promise<Notes>;
}

/** The additional tools for inline volumes of pods. */
export interface InlineContext {
  readonly pools: Pools;
  /** The largest inline volume that a pod may ask for; undefined: any that its pool has room for. */
  readonly maxInlineSizeBytes: bigint | undefined;
  readonly lateRemovals: LateRemovals;
}
