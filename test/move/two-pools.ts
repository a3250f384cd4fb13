import assert from 'node:assert/strict';
import { mock } from 'node:test';
import { readUnderIn } from '../../src/move/rests.ts';
import type { Catalog } from '../../src/pool/catalog/catalog.ts';
import type { PoolMoves, SnapshotArrival } from '../../src/pool/moves.ts';
import type { Pool } from '../../src/pool/pool.ts';
import { Unavailable } from '../../src/volume/errors.ts';
import type { VolumeId } from '../../src/volume/id.ts';
import { type ImageTestOptions, openTestPool } from '../support/image-pool.ts';
import type { Scratch } from '../support/scratch.ts';

/** An image pool of a node that has several. */
export function openPool(scratch: Scratch, name: string, options: ImageTestOptions = {}): Promise<Catalog> {
  return openTestPool(scratch, { name, location: { type: 'directory', path: scratch.join(name) }, ...options });
}

export function movesOf({ moves }: { readonly moves?: PoolMoves | undefined }): PoolMoves {
  return moves ?? assert.fail('the pool moves no volumes');
}

/** True if all of a volume on its way to the pool has come. */
export async function isWhole(pool: Pool, id: VolumeId): Promise<boolean> {
  return (await readUnderIn(movesOf(pool), id)) !== undefined;
}

/** From now on a pool commits no volume: one that was handed over to it does not arrive. */
export function refuseVolumes(pool: Pool): void {
  const target = movesOf(pool);
  const receive = target.receive.bind(target);
  mock.method(target, 'receive', async (...args: Parameters<typeof receive>) => {
    const incoming = await receive(...args);
    incoming.commit = async () => {
      throw new Unavailable(`pool ${pool.name} does not answer.`);
    };
    return incoming;
  });
}

/** The arrival of a snapshot that takes no space, beside which nothing happens. */
export function arrivalOf(moveId: string, changes: Partial<SnapshotArrival> = {}): SnapshotArrival {
  return { moveId, newBytes: 0n, isGiven: false, alone: (_id, work) => work(), ...changes };
}
