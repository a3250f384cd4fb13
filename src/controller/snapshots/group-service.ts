import type * as wire from '../../csi/generated/types.ts';
import type { GroupControllerHandlers } from '../../csi/generated/types.ts';
import type { Pool } from '../../pool/pool.ts';
import type { Pools } from '../../pool/pools.ts';
import { AlreadyExists, FailedPrecondition, InvalidArgument, NotFound } from '../../volume/errors.ts';
import { fingerprint, type ObjectQueue } from '../../volume/flow/object-queue.ts';
import { type GroupId, groupIdFor, memberIdFor, parseGroupId, type VolumeId } from '../../volume/id.ts';
import { groupControllerCapabilities } from '../capabilities.ts';
import { requireVolumeId } from '../find.ts';
import { checkSnapshotParameters, sortedParameters } from '../volumes/parameters.ts';
import { requireStillIn, sourceClaim } from '../volumes/sources.ts';
import { type FoundGroup, findGroup, presentGroup, requireMembers } from './group.ts';

export interface GroupControllerOptions {
  readonly nodeId: string;
  readonly pools: Pools;
  /** Shared with the controller and the node service: one call at a time for one volume. */
  readonly objects: ObjectQueue;
}

/** The GroupController service: snapshots of several volumes, taken at one instant. */
export function groupControllerService(options: GroupControllerOptions): GroupControllerHandlers {
  const { objects, pools } = options;
  return {
    async GroupControllerGetCapabilities() {
      return { capabilities: [...groupControllerCapabilities] };
    },

    async CreateVolumeGroupSnapshot(request, context) {
      const group = await createGroup(options, parseGroupRequest(request));
      context.note({ group_snapshot_id: group.record.id, pool: group.pool.name });
      return { group_snapshot: presentGroup(group) };
    },

    async DeleteVolumeGroupSnapshot({ group_snapshot_id, snapshot_ids }, context) {
      const id = parseGroupId(group_snapshot_id);
      // No group of ours has such an id, so there is nothing to delete (GR15).
      if (id === undefined) return {};
      context.note({ group_snapshot_id: id });
      return objects.run(id, 'DeleteVolumeGroupSnapshot', fingerprint(snapshot_ids), async () => {
        await deleteGroup(options, id, snapshot_ids);
        return {};
      });
    },

    async GetVolumeGroupSnapshot({ group_snapshot_id, snapshot_ids }, context) {
      const id = parseGroupId(group_snapshot_id);
      const group = id === undefined ? undefined : await findGroup(await pools.findGroup(id));
      if (group === undefined) {
        throw new NotFound(`There is no group ${JSON.stringify(group_snapshot_id)} on this node.`);
      }
      context.note({ group_snapshot_id: group.record.id, pool: group.pool.name });
      requireMembers(group, snapshot_ids);
      return { group_snapshot: presentGroup(group) };
    },
  };
}

/**
 * Returns the group with that name, and takes it if there is none. Its id is locked meanwhile, and then all of its
 * sources.
 * @throws AlreadyExists if the group exists with other volumes (GR06)
 */
async function createGroup(
  { objects, nodeId, pools }: GroupControllerOptions,
  request: GroupRequest,
): Promise<FoundGroup> {
  const { name, sourceIds } = request;
  const parameters = sortedParameters(request.parameters);
  const id = groupIdFor(nodeId, name);
  return objects.run(id, 'CreateVolumeGroupSnapshot', fingerprint({ sourceIds, parameters }), async () => {
    const existing = await findGroup(await pools.findMadeGroup(id));
    if (existing !== undefined) return replay(existing, request);
    const pool = await commonPool(pools, sourceIds);
    const specs = sourceIds.map((sourceId) => ({ id: memberIdFor(id, sourceId), name, sourceId, parameters }));
    const claims = [
      ...specs.map((spec) => ({ object: spec.id })),
      ...sourceIds.map((sourceId) => sourceClaim(pool, sourceId)),
    ];
    return objects.claim(claims, 'CreateVolumeGroupSnapshot', async () => {
      for (const sourceId of sourceIds) requireStillIn(pool, (await pools.require(sourceId)).pool, sourceId);
      const members = await pool.takeSnapshots(specs, { id, name, parameters });
      const createdAt = members[0]?.createdAt ?? '';
      return { pool, record: { id, createdAt }, members };
    });
  });
}

/**
 * Deletes a group. A group that is gone already may have left members behind, when the first try was interrupted
 * (GR17).
 */
async function deleteGroup(
  { objects, pools }: GroupControllerOptions,
  id: GroupId,
  snapshotIds: readonly string[],
): Promise<void> {
  const group = await findGroup(await pools.findGroup(id));
  if (group === undefined) {
    for (const pool of pools.all()) await pool.removeGroup(id);
    return;
  }
  requireMembers(group, snapshotIds);
  // Waits for calls that make a volume from a member.
  const claims = group.members.map((member) => ({ object: member.id }));
  await objects.claim(claims, 'DeleteVolumeGroupSnapshot', () => group.pool.removeGroup(id));
}

/** Groups have no parameters of ours, so only the sources can differ (GR05, GR06). */
function replay(existing: FoundGroup, { name, sourceIds }: GroupRequest): FoundGroup {
  const had = existing.members.map(({ sourceId }) => sourceId).sort();
  if (had.join() === sourceIds.join()) return existing;
  throw new AlreadyExists(
    `Group ${existing.record.id} of volumes ${had.join(', ')} already has the name ${JSON.stringify(name)}. Use another name.`,
  );
}

/** @throws NotFound, FailedPrecondition if no snapshot can cover all of them (GR08) */
async function commonPool(pools: Pools, ids: readonly VolumeId[]): Promise<Pool> {
  const found = await Promise.all(ids.map((id) => pools.require(id)));
  const [pool, ...others] = new Set(found.map((volume) => volume.pool));
  if (pool !== undefined && others.length === 0) return pool;
  const places = found.map(({ pool: { name }, record }) => `${record.id} is in ${name}`);
  throw new FailedPrecondition(
    `Volumes of several pools cannot be snapshotted at one instant (${places.join(', ')}): group volumes of one pool.`,
  );
}

/** A well-formed CreateVolumeGroupSnapshotRequest. */
interface GroupRequest {
  readonly name: string;
  /** A sorted set: the order in the request has no meaning (GR05). */
  readonly sourceIds: readonly VolumeId[];
  readonly parameters: Readonly<Record<string, string>>;
}

/** @throws InvalidArgument (GR03, GR04), NotFound for an id that cannot be one */
function parseGroupRequest(request: wire.CreateVolumeGroupSnapshotRequest): GroupRequest {
  const { name, parameters, source_volume_ids: texts } = request;
  checkSnapshotParameters(parameters);
  if (texts.includes('')) throw new InvalidArgument('source_volume_ids has an empty id.');
  const seen = new Set<string>();
  // The first duplicate, found in one pass, as the list can be long.
  const twice = texts.find((text) => seen.size === seen.add(text).size);
  if (twice !== undefined) throw new InvalidArgument(`source_volume_ids has ${JSON.stringify(twice)} twice.`);
  return { name, sourceIds: texts.map(requireVolumeId).sort(), parameters };
}
