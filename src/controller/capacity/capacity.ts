import type * as wire from '../../csi/generated/types.ts';
import type { Draft } from '../../csi/handler.ts';
import { defaultProvisioning, type Pool } from '../../pool/pool.ts';
import { PoolQuarantined } from '../../pool/quarantine.ts';
import { newEncryption } from '../../volume/encryption.ts';
import { InvalidArgument } from '../../volume/errors.ts';
import { granularityBytes, larger, maximumVolumeBytes, smaller } from '../../volume/size.ts';
import type { ControllerContext } from '../context.ts';
import { parseDemand } from '../request.ts';
import { parsePlacement, type VolumeParameters } from '../volumes/parameters.ts';
import { contentIn, minimumBytes } from '../volumes/volume-spec.ts';
import { checkSegments, contains } from './topology.ts';

/** Nothing is wrong with the question; the answer is that no such volume can be made here. */
class Impossible extends InvalidArgument {}

const nothing: Draft<wire.GetCapacityResponse> = { available_capacity: 0n };

/**
 * How much can still be provisioned to volumes as described: the pool's own figure, by which it also measures a
 * CreateVolume (GC03, GC04). What cannot be had on this node at all has a capacity of 0 (GC02).
 * @throws InvalidArgument for capabilities or a topology that are wrong in themselves
 */
export async function capacityFor(
  { pools, topology: here }: ControllerContext,
  request: wire.GetCapacityRequest,
): Promise<Draft<wire.GetCapacityResponse>> {
  const parameters = parsePlacement(request.parameters);
  const place = request.accessible_topology?.segments ?? {};
  checkSegments(place);
  try {
    const poolName = parameters.poolName ?? pools.defaultName;
    // Another node may have such a pool: the same storage class is asked about everywhere.
    if (!contains(place, here) || !pools.names().includes(poolName)) return nothing;
    return await capacityIn(pools.get(poolName), parameters, request.volume_capabilities);
  } catch (error) {
    // A pool that is in quarantine can provision nothing until its disk is well.
    if (error instanceof Impossible || error instanceof PoolQuarantined) return nothing;
    throw error;
  }
}

async function capacityIn(
  pool: Pool,
  {
    encryption,
    provisioning = defaultProvisioning(pool.traits),
  }: Pick<VolumeParameters, 'encryption' | 'provisioning'>,
  capabilities: readonly wire.VolumeCapability[],
): Promise<Draft<wire.GetCapacityResponse>> {
  const minimum = smallestVolume(pool, capabilities);
  if (!pool.traits.provisioning.includes(provisioning)) return nothing;
  const { availableBytes, thickAvailableBytes } = await pool.capacity();
  const free = provisioning === 'thick' ? thickAvailableBytes : availableBytes;
  // Encryption takes its own beside what the volume has.
  const available = encryption === undefined ? free : larger(0n, free - BigInt(newEncryption(encryption).headerBytes));
  const { granularityBytes: multipleBytes = granularityBytes } = pool.traits;
  const maximum = smaller(available - (available % multipleBytes), maximumVolumeBytes);
  if (maximum < minimum) return nothing;
  return {
    available_capacity: maximum,
    maximum_volume_size: { value: maximum },
    minimum_volume_size: { value: minimum },
  };
}

/** Without capabilities: of the least demanding kind. */
function smallestVolume(pool: Pool, capabilities: readonly wire.VolumeCapability[]): bigint {
  if (capabilities.length === 0) return granularityBytes;
  const onUnsupported = (message: string) => new Impossible(message);
  return minimumBytes(contentIn(pool, parseDemand(capabilities, onUnsupported), onUnsupported));
}
