import type { Config } from '../../config/config.ts';
import { claimOf } from '../../volume/claim.ts';
import { parseVolumeId } from '../../volume/id.ts';
import { findVolume, type Known } from './find-volume.ts';
import { lookedIn } from './inventory.ts';
import { lookAtPools } from './look.ts';

/**
 * The id of the volume that is meant, for a question to the driver. For an id no pool is looked at: the driver knows best.
 * @param others volumes that may be in no pool
 * @throws NotFound, FailedPrecondition
 */
export async function volumeIdOf(config: Config, wanted: string, others: readonly Known[] = []): Promise<string> {
  // A node that has no pools knows volumes by their handles alone.
  if (parseVolumeId(wanted) !== undefined || config.pools.length === 0) return wanted;
  const pools = await lookAtPools(config, 'records');
  const volumes = pools.flatMap(({ config: { name: pool }, contents }) =>
    (contents?.records ?? []).map((record) => ({ id: record.id, name: record.name, claim: claimOf(record), pool })),
  );
  const known = others.filter(({ id }) => volumes.every((volume) => volume.id !== id));
  return findVolume<Known>([...volumes, ...known], wanted, lookedIn(pools)).id;
}
