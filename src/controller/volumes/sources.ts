import type { Pool } from '../../pool/pool.ts';
import type { Found } from '../../pool/pools.ts';
import { NotFound, ResourceExhausted } from '../../volume/errors.ts';
import type { VolumeId } from '../../volume/id.ts';
import type { Claim } from '../../volume/object-queue.ts';
import type { VolumeRecord, VolumeSource } from '../../volume/record.ts';
import type { SnapshotRecord } from '../../volume/snapshot-record.ts';
import type { ControllerContext } from '../context.ts';
import type { VolumeRequest } from '../request.ts';

/** Of what a new volume's content is taken from. */
export type SourceRecord = VolumeRecord | SnapshotRecord;

/**
 * What a snapshot or clone needs of its source volume: that it is neither staged, grown nor deleted meanwhile. A cut at
 * once may freeze it, which one call at a time can do. A copy takes long, but only reads what is not in use: several at
 * a time can.
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
  // Asked for a volume in this place, while another node may have the source: on this code Kubernetes asks the next one
  // (Y05, CV29). On NOT_FOUND it would ask this one for ever.
  if (topology !== undefined) {
    throw new ResourceExhausted(`${missing}: if another one has it, the volume has to be made there.`);
  }
  throw new NotFound(`${missing}.`);
}
