import type * as wire from '../../csi/generated/types.ts';
import type { Draft } from '../../csi/handler.ts';
import { defaultProvisioning, encryptionIn, hasLayout, type Pool, sizeMultiple } from '../../pool/pool.ts';
import type { Pools } from '../../pool/pools.ts';
import { PoolQuarantined } from '../../pool/quarantine.ts';
import { InvalidArgument } from '../../volume/errors.ts';
import { granularityBytes, larger, maximumVolumeBytes, smaller } from '../../volume/size.ts';
import type { ControllerContext } from '../context.ts';
import { type Demand, parseDemand } from '../request.ts';
import { checkSegments, contains } from '../topology.ts';
import { type Placement, parsePlacement } from './parameters.ts';
import { contentIn, minimumBytes, requireModes } from './volume-spec.ts';

/** The request is valid; the answer is that no such volume can be made here. */
class Impossible extends InvalidArgument {}

function onUnsupported(message: string): Impossible {
  return new Impossible(message);
}

const nothing: Draft<wire.GetCapacityResponse> = { available_capacity: 0n };

/**
 * Returns the capacity that can still be provisioned to volumes as described: the pool's own figure, against which it
 * also checks a CreateVolume (GC03, GC04). Volumes that this node cannot have at all have a capacity of 0 (GC02).
 * @throws InvalidArgument for malformed capabilities or topology
 */
export async function capacityFor(
  { pools, topology: here }: ControllerContext,
  request: wire.GetCapacityRequest,
): Promise<Draft<wire.GetCapacityResponse>> {
  const parameters = parsePlacement(request.parameters);
  const place = request.accessible_topology?.segments ?? {};
  checkSegments(place);
  try {
    if (!contains(place, here)) return nothing;
    const { volume_capabilities: capabilities } = request;
    // A request without capabilities asks about the least demanding volumes.
    const demand = capabilities.length === 0 ? undefined : parseDemand(capabilities, onUnsupported);
    const poolName = parameters.poolName ?? pools.defaultName;
    const { poolSelector: selector } = parameters;
    if (selector !== undefined || pools.isSection(poolName)) {
      const names = selector === undefined ? pools.named(poolName) : pools.selected(selector);
      const [roomiest] = await roomFor(pools, names, parameters, demand);
      return roomiest?.capacity ?? nothing;
    }
    // Another node may have such a pool: Kubernetes asks every node about a storage class.
    if (!pools.names().includes(poolName)) return nothing;
    return await capacityIn(pools.get(poolName), parameters, demand);
  } catch (error) {
    if (hasNone(error)) return nothing;
    throw error;
  }
}

/** Recognises that nothing can be provisioned: a quarantined pool cannot until its disk recovers. */
function hasNone(error: unknown): boolean {
  return error instanceof Impossible || error instanceof PoolQuarantined;
}

/** A pool with the capacity that it can provision to volumes as described. */
export interface Room {
  readonly pool: Pool;
  readonly capacity: Draft<wire.GetCapacityResponse>;
}

/**
 * Returns the open pools among these, the one with the most room first. A volume lies in one of them: their capacities
 * do not add up.
 * @throws Unavailable while one of them is being opened: an earlier try may have made the volume there
 */
export async function roomFor(
  pools: Pools,
  names: readonly string[],
  parameters: Placement,
  demand: Demand | undefined,
): Promise<Room[]> {
  pools.requireSettled(names);
  const rooms = pools
    .all()
    .filter(({ name }) => names.includes(name))
    .map(async (pool): Promise<Room> => {
      const none = (error: unknown) => (hasNone(error) ? nothing : Promise.reject(error));
      return { pool, capacity: await capacityIn(pool, parameters, demand).catch(none) };
    });
  const bytes = ({ capacity }: Room) => capacity.available_capacity ?? 0n;
  return (await Promise.all(rooms)).sort((a, b) => (bytes(a) === bytes(b) ? 0 : bytes(a) > bytes(b) ? -1 : 1));
}

async function capacityIn(
  pool: Pool,
  { encryption, layout, provisioning = defaultProvisioning(pool.traits), wipe }: Placement,
  demand: Demand | undefined,
): Promise<Draft<wire.GetCapacityResponse>> {
  if (demand !== undefined) requireModes(pool, demand, onUnsupported);
  const minimum = demand === undefined ? granularityBytes : minimumBytes(contentIn(pool, demand, onUnsupported));
  if (!pool.traits.provisioning.includes(provisioning)) return nothing;
  if (encryption !== undefined && !pool.traits.encryption?.includes(encryption)) return nothing;
  if (layout !== undefined && !hasLayout(pool.traits, layout)) return nothing;
  if (wipe !== undefined && !pool.traits.wipes?.includes(wipe)) return nothing;
  const { availableBytes, thickAvailableBytes } = await pool.capacity(layout);
  const free = provisioning === 'thick' ? thickAvailableBytes : availableBytes;
  const multipleBytes = sizeMultiple(pool.traits, encryption) ?? granularityBytes;
  // Encryption takes space in addition to the volume's size.
  const ownBytes = encryption === undefined ? 0n : BigInt(encryptionIn(pool.traits, encryption).headerBytes);
  const available = larger(0n, free - ownBytes);
  const maximum = smaller(available - (available % multipleBytes), maximumVolumeBytes);
  if (maximum < minimum) return nothing;
  return {
    available_capacity: maximum,
    maximum_volume_size: { value: maximum },
    minimum_volume_size: { value: minimum },
  };
}
