import type { Pool } from '../../pool/pool.ts';
import type { Found } from '../../pool/pools.ts';
import { NotFound, ResourceExhausted, Unavailable } from '../../volume/errors.ts';
import type { Claim } from '../../volume/flow/object-queue.ts';
import { kindOf, type SnapshotId, type VolumeId } from '../../volume/id.ts';
import type { VolumeRecord, VolumeSource } from '../../volume/record.ts';
import type { SnapshotRecord } from '../../volume/snapshot-record.ts';
import type { ControllerContext } from '../context.ts';
import type { VolumeRequest } from '../request.ts';

/** The source of a new volume's content. */
export type SourceRecord = VolumeRecord | SnapshotRecord;

/**
 * The lock that a snapshot or clone needs on its source: the source must not be staged, grown or deleted meanwhile. An
 * instant snapshot may freeze the source, which only one call at a time can do. A copy takes long, but only reads a
 * volume that is not in use: several calls at a time can.
 */
export function sourceClaim(pool: Pool, id: VolumeId): Claim {
  return { object: id, isShared: pool.traits.snapshots === 'copy' };
}

/** @throws NotFound, ResourceExhausted */
export async function requireSource(
  { pools }: ControllerContext,
  source: VolumeSource,
  { topology }: VolumeRequest,
): Promise<Found<SourceRecord>> {
  const found = await (source.type === 'snapshot' ? pools.findSnapshot(source.id) : pools.find(source.id));
  if (found !== undefined) return found;
  const missing = `There is no ${source.type} ${source.id} on this node`;
  // The request names a topology, and another node may have the source: on this code Kubernetes tries the next node
  // (Y05, CV29). On NOT_FOUND it would retry here for ever.
  if (topology !== undefined) {
    throw new ResourceExhausted(`${missing}: if another node has it, the volume must be made there.`);
  }
  throw new NotFound(`${missing}.`);
}

/** A source may have moved while the call waited for its lock. @throws Unavailable if it is in another pool now */
export function requireStillIn(before: Pool, now: Pool, id: VolumeId | SnapshotId): void {
  if (now.name === before.name) return;
  throw new Unavailable(
    `${kindOf(id)} ${id} has moved from pool ${before.name} to pool ${now.name} just now; try again.`,
  );
}
