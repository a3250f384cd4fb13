import type { z } from 'zod';
import type { fleetShapes, NodeItem } from '../../cli/fleet/shapes.ts';
import type { BoardList } from '../messages.ts';

/** Items of the lists: as `kubectl holdfast … --json` prints them. */
type Lists = typeof fleetShapes;
export type Node = NodeItem;
export type Pool = z.infer<Lists['pools']>['pools'][number];
export type Volume = z.infer<Lists['volumes']>['volumes'][number];
export type Snapshot = z.infer<Lists['snapshots']>['snapshots'][number];
export type Trashed = z.infer<Lists['trash']>['volumes'][number];
export type Move = z.infer<Lists['moves']>['moves'][number];
export type Disk = z.infer<Lists['disks']>['disks'][number];
export type Holders = z.infer<Lists['who']>['volumes'][number];
export type Disks = z.infer<Lists['disks']>;
export type Who = z.infer<Lists['who']>;

export interface ItemOf {
  readonly nodes: Node;
  readonly pools: Pool;
  readonly volumes: Volume;
  readonly snapshots: Snapshot;
  readonly trash: Trashed;
  readonly moves: Move;
}

export type Tables = { readonly [List in BoardList]: ReadonlyMap<string, ItemOf[List]> };
