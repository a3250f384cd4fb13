import { parseMkfsOptions } from '../command/mkfs-options.ts';
import type { Pool, VolumeSpec } from '../pool/pool.ts';
import type { FoundVolume } from '../pool/pools.ts';
import type { VolumeContent } from '../volume/capability.ts';
import { AlreadyExists, type HoldfastError, InvalidArgument, ResourceExhausted } from '../volume/errors.ts';
import { filesystemTraits } from '../volume/filesystem.ts';
import { type VolumeId, volumeIdFor } from '../volume/id.ts';
import { chooseSize, granularityBytes } from '../volume/size.ts';
import type { ControllerContext } from './context.ts';
import { differences } from './replay.ts';
import { type Demand, fingerprint, type VolumeRequest } from './request.ts';
import { allowsHere } from './topology.ts';

/**
 * The volume of that name, made if there is none. The name is held while we look and make: it must be unique on the
 * node, and a volume's id holds only its own pool's (K02).
 * @throws AlreadyExists if there is one that does not fit the request
 */
export async function createVolume(controller: ControllerContext, request: VolumeRequest): Promise<FoundVolume> {
  const { flights, nodeId, pools } = controller;
  const home = pools.get(request.parameters.poolName ?? pools.defaultName);
  const name = `volume name ${JSON.stringify(request.name)}`;
  return flights.run(name, 'CreateVolume', fingerprint(request), async () => {
    const existing = await findByName(controller, request.name, home);
    if (existing !== undefined) return replay(controller, existing, request);
    requireHere(controller, request);
    const spec = specFor(request, home, volumeIdFor(nodeId, home.name, request.name));
    return flights.run(spec.id, 'CreateVolume', '', async () => ({ pool: home, record: await home.create(spec) }));
  });
}

/**
 * Ids are derived from names, pool by pool, so the name is looked for in every pool that is open: a second try with
 * another pool must meet the volume of the first. A pool that is not open is passed over; one broken disk does not
 * stop creation on the others.
 */
async function findByName(
  { nodeId, pools }: ControllerContext,
  name: string,
  home: Pool,
): Promise<FoundVolume | undefined> {
  for (const pool of [home, ...pools.all().filter((other) => other !== home)]) {
    const record = await pool.find(volumeIdFor(nodeId, pool.name, name));
    if (record !== undefined) return { pool, record };
  }
  return undefined;
}

function replay({ topology }: ControllerContext, existing: FoundVolume, request: VolumeRequest): FoundVolume {
  const { pool, record } = existing;
  const found = differences({ poolName: pool.name, record }, request, topology);
  if (found.length === 0) return existing;
  throw new AlreadyExists(
    `Volume ${record.id} has the name ${JSON.stringify(request.name)} already, and differs: ${found.join('; ')}. Use another name, or ask for what it is.`,
  );
}

function requireHere({ nodeId, topology: here }: ControllerContext, { name, topology }: VolumeRequest): void {
  if (allowsHere(topology, here)) return;
  throw new ResourceExhausted(
    `Volume ${JSON.stringify(name)} cannot be made: node ${nodeId} is not in the requisite topology, and its volumes lie on its own disks.`,
  );
}

/** @throws InvalidArgument for what the pool cannot do, OutOfRange for a size that it cannot have */
function specFor(request: VolumeRequest, pool: Pool, id: VolumeId): VolumeSpec {
  const { demand, parameters } = request;
  const content = contentIn(pool, demand, (message) => new InvalidArgument(message));
  if (!pool.capabilities.provisioning.includes(parameters.provisioning)) {
    throw new InvalidArgument(
      `Pool ${pool.name} has no ${parameters.provisioning} provisioning, only ${pool.capabilities.provisioning.join(', ')}.`,
    );
  }
  return {
    id,
    name: request.name,
    sizeBytes: chooseSize(request.range, minimumBytes(content)),
    content,
    accessModes: demand.modes,
    provisioning: parameters.provisioning,
    mkfsArguments: mkfsArguments(content, parameters.mkfsOptions),
    parameters: request.allParameters,
  };
}

/** What a volume in this pool will hold to meet the demand. `onUnsupported` makes the error if none can. */
export function contentIn(
  pool: Pool,
  { access }: Demand,
  onUnsupported: (message: string) => HoldfastError,
): VolumeContent {
  const { block, filesystems } = pool.capabilities;
  if (access.type === 'block') {
    if (!block) throw onUnsupported(`Pool ${pool.name} has no raw block volumes.`);
    return { type: 'block' };
  }
  const fsType = access.fsType ?? pool.defaultFilesystem;
  if (!filesystems.includes(fsType)) {
    throw onUnsupported(`Pool ${pool.name} has no ${fsType}, only ${filesystems.join(', ')}.`);
  }
  return { type: 'mount', fsType };
}

/** The smallest volume that can hold this (CV09). */
export function minimumBytes(content: VolumeContent): bigint {
  return content.type === 'block' ? granularityBytes : filesystemTraits[content.fsType].minimumBytes;
}

function mkfsArguments(content: VolumeContent, options: string): string[] {
  if (content.type === 'mount') return parseMkfsOptions(content.fsType, options);
  if (options === '') return [];
  throw new InvalidArgument('mkfsOptions is set, but a raw block volume gets no filesystem: leave it out.');
}
