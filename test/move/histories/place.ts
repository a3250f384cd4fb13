import { type VolumeId, volumeIdFor } from '../../../src/volume/id.ts';

export const nodeNames = ['a', 'b', 'c'] as const;
export const poolNames = ['data', 'other'] as const;
export type NodeName = (typeof nodeNames)[number];
export type PoolName = (typeof poolNames)[number];

/** The volume whose history it is. */
export const id: VolumeId = volumeIdFor('a', 'data', 'history');

export interface Place {
  readonly node: NodeName;
  readonly pool: PoolName;
}

/** A promise of docs/move.md that does not hold. */
export class Broken extends Error {}
