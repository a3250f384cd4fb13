import { type Pool, volumeIdIn } from '../../pool/pool.ts';
import type { FoundVolume } from '../../pool/pools.ts';
import { AlreadyExists, InvalidArgument, ResourceExhausted } from '../../volume/errors.ts';
import { fingerprint, volumeNameKey } from '../../volume/flow/object-queue.ts';
import type { VolumeSource } from '../../volume/record.ts';
import { defaultVolumeBytes, satisfies, smaller } from '../../volume/size.ts';
import type { ControllerContext } from '../context.ts';
import type { VolumeRequest } from '../request.ts';
import { allowsHere } from '../topology.ts';
import { type Room, roomFor } from './capacity.ts';
import { differences } from './replay.ts';
import { requireSource, requireStillIn, sourceClaim } from './sources.ts';
import { specFor } from './volume-spec.ts';

/**
 * Returns the volume with that name, and makes it if there is none. The name is locked meanwhile: it must be unique on
 * the node, and a volume's id is unique only in its pool (K02).
 * @throws AlreadyExists if a volume with that name does not fit the request
 */
export async function createVolume(controller: ControllerContext, request: VolumeRequest): Promise<FoundVolume> {
  const { objects, pools } = controller;
  const { parameters, source } = request;
  // A request that names no pool uses the source's pool, or the default one.
  const isLeftToUs = source === undefined && parameters.poolSelector === undefined;
  const poolName = parameters.poolName ?? (isLeftToUs ? pools.defaultName : undefined);
  const pool = poolName === undefined || pools.isSection(poolName) ? undefined : pools.get(poolName);
  return objects.run(volumeNameKey(request.name), 'CreateVolume', fingerprint(request), async () => {
    const existing = await findByName(controller, request.name, pool);
    if (existing !== undefined) return replay(controller, existing, request);
    requireHere(controller, request);
    return source === undefined ? createBlank(controller, request, pool) : createFrom(controller, request, source);
  });
}

async function createBlank(
  controller: ControllerContext,
  request: VolumeRequest,
  named: Pool | undefined,
): Promise<FoundVolume> {
  const { nodeId, objects } = controller;
  const createIn = async (pool: Pool): Promise<FoundVolume> => {
    const spec = specFor(request, pool, volumeIdIn(pool, nodeId, request.name));
    const record = await objects.claim([{ object: spec.id }], 'CreateVolume', () => pool.create(spec));
    return { pool, record };
  };
  if (named !== undefined) return createIn(named);
  const { first, others } = await selectedPools(controller, request);
  let made = createIn(first);
  // Another request may have taken the disk meanwhile.
  for (const pool of others) {
    made = made.catch((error) => (error instanceof ResourceExhausted ? createIn(pool) : Promise.reject(error)));
  }
  return made;
}

interface SelectedPools {
  readonly first: Pool;
  /** Pools to try next if the first has no room left. */
  readonly others: readonly Pool[];
}

/**
 * Among the pools that match the request's selector or section, the one with the most room comes first. If a pool is
 * one volume, the smallest that fits comes first: the rest of a larger one would be lost.
 * @throws ResourceExhausted, Unavailable
 */
async function selectedPools(
  { nodeId, pools }: ControllerContext,
  { demand, name, parameters, range }: VolumeRequest,
): Promise<SelectedPools> {
  const { poolName = pools.defaultName, poolSelector: selector } = parameters;
  const names = selector === undefined ? pools.named(poolName) : pools.selected(selector);
  const rooms = await roomFor(pools, names, parameters, demand);
  const [roomiest] = rooms;
  if (roomiest !== undefined) {
    const [smallest, ...larger] = isOneVolume(roomiest) ? await smallestFirst(rooms, range) : [];
    return { first: smallest ?? roomiest.pool, others: larger };
  }
  const [closed] = names;
  if (closed !== undefined) return { first: pools.get(closed), others: [] };
  const why =
    selector === undefined
      ? `no disk of node ${nodeId} is of pool ${poolName} (holdfast disks shows why)`
      : `no pool of node ${nodeId} has the labels ${selector.text}. Its pools: ${pools.names().join(', ')}`;
  throw new ResourceExhausted(`Volume ${JSON.stringify(name)} cannot be made: ${why}.`);
}

function isOneVolume({ pool }: Room): boolean {
  return pool.traits.isOneVolume === true;
}

/**
 * Returns the pools that are one volume and fit, the smallest first. Pools with something in the trash come last: it
 * would have to be purged.
 */
async function smallestFirst(rooms: readonly Room[], range: VolumeRequest['range']): Promise<Pool[]> {
  const fitting = rooms.filter((room) => isOneVolume(room) && fits(room, range)).reverse();
  const pools = fitting.map(async ({ pool }) => ({ pool, isEmpty: (await pool.capacity()).usedBytes === 0n }));
  const sorted = (await Promise.all(pools)).sort((a, b) => Number(b.isEmpty) - Number(a.isEmpty));
  return sorted.map(({ pool }) => pool);
}

/** Answers if a volume that takes the whole pool satisfies the request. */
function fits({ capacity }: Room, range: VolumeRequest['range']): boolean {
  const limitBytes = range?.limitBytes;
  const requiredBytes = range?.requiredBytes ?? smaller(defaultVolumeBytes, limitBytes ?? defaultVolumeBytes);
  return satisfies(capacity.available_capacity ?? 0n, { requiredBytes, limitBytes });
}

/**
 * Makes a volume from a source. The source is read again under its lock: it may have grown, or be gone. A snapshot can
 * be locked before it is found: if it is being taken, the call waits for it (CV30).
 */
async function createFrom(
  controller: ControllerContext,
  request: VolumeRequest,
  source: VolumeSource,
): Promise<FoundVolume> {
  const { objects, nodeId } = controller;
  const snapshotClaims = source.type === 'snapshot' ? [{ object: source.id, isShared: true }] : [];
  return objects.claim(snapshotClaims, 'CreateVolume', async () => {
    const { pool } = await requireSource(controller, source, request);
    requireSamePool(controller, request, source, pool);
    const id = volumeIdIn(pool, nodeId, request.name);
    const volumeClaims = source.type === 'volume' ? [sourceClaim(pool, source.id)] : [];
    return objects.claim([{ object: id }, ...volumeClaims], 'CreateVolume', async () => {
      const { pool: now, record } = await requireSource(controller, source, request);
      requireStillIn(pool, now, source.id);
      return { pool, record: await pool.create(specFor(request, pool, id, record), source) };
    });
  });
}

/** @throws InvalidArgument (CV26) */
function requireSamePool(
  { pools }: ControllerContext,
  { parameters: { poolName, poolSelector } }: VolumeRequest,
  { id, type }: VolumeSource,
  pool: Pool,
): void {
  const isNamed = poolName === undefined || pools.named(poolName).includes(pool.name);
  if (isNamed && (poolSelector === undefined || pools.selected(poolSelector).includes(pool.name))) return;
  throw new InvalidArgument(
    `The ${type} ${id} is in pool ${pool.name}, and a volume made from it must be in the same pool: name that pool instead of ${poolName ?? poolSelector?.text}, or none.`,
  );
}

/**
 * Finds a volume by its name in every open pool. Ids are derived from names, pool by pool: a second try with another
 * pool must meet the volume of the first, and a volume keeps its id when it moves to another pool. Pools that are not open
 * are skipped, so that one broken disk does not stop creation on the others.
 */
async function findByName(
  { nodeId, pools }: ControllerContext,
  name: string,
  likely: Pool | undefined,
): Promise<FoundVolume | undefined> {
  const known = [...(likely === undefined ? [] : [likely]), ...pools.known().filter((other) => other !== likely)];
  for (const pool of known) {
    const record = await pool.find(volumeIdIn(pool, nodeId, name));
    if (record !== undefined) return (await pools.find(record.id)) ?? { pool, record };
  }
  // A volume that was made in one pool, and is in another one by now.
  for (const pool of known) {
    for (const other of known) {
      const record = other === pool ? undefined : await other.find(volumeIdIn(pool, nodeId, name));
      if (record !== undefined) return { pool: other, record };
    }
  }
  return undefined;
}

function replay({ topology }: ControllerContext, existing: FoundVolume, request: VolumeRequest): FoundVolume {
  const { pool, record } = existing;
  const found = differences({ poolName: pool.name, record }, request, pool.cluster?.topologyOf?.(record) ?? topology);
  if (found.length === 0) return existing;
  throw new AlreadyExists(
    `volume ${record.id} already has this name and differs: ${found.join('; ')}. Use another name, or change the request to match.`,
  );
}

function requireHere({ nodeId, topology: here }: ControllerContext, { name, topology }: VolumeRequest): void {
  if (allowsHere(topology, here)) return;
  throw new ResourceExhausted(
    `Volume ${JSON.stringify(name)} cannot be made: node ${nodeId} is not in the requisite topology, and its volumes lie on its own disks.`,
  );
}
