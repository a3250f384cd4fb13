import type { ControllerHandlers } from '../../csi/generated/types.ts';
import type { Found, Pools } from '../../pool/pools.ts';
import { AlreadyExists, InternalError, InvalidArgument, NotFound } from '../../volume/errors.ts';
import { fingerprint } from '../../volume/flow/object-queue.ts';
import { parseSnapshotId, snapshotIdFor, type VolumeId } from '../../volume/id.ts';
import type { SnapshotRecord } from '../../volume/snapshot-record.ts';
import type { ControllerContext } from '../context.ts';
import { requireSnapshotId, requireVolumeId } from '../find.ts';
import { parsePageRequest } from '../listing/page.ts';
import { listSnapshots } from '../listing/snapshot-listing.ts';
import { presentSnapshot } from '../present.ts';
import { checkSnapshotParameters, sortedParameters } from '../volumes/parameters.ts';
import { requireStillIn, sourceClaim } from '../volumes/sources.ts';

interface SnapshotRequest {
  readonly name: string;
  readonly sourceId: VolumeId;
  readonly parameters: Readonly<Record<string, string>>;
}

/** The handlers for single snapshots. */
export function snapshotHandlers(controller: ControllerContext) {
  const { moves, objects, pools } = controller;
  return {
    async CreateSnapshot({ name, parameters, source_volume_id }, context) {
      checkSnapshotParameters(parameters);
      const sourceId = requireVolumeId(source_volume_id);
      context.note({ volume_id: sourceId });
      const request = { name, sourceId, parameters: sortedParameters(parameters) };
      const { pool, record } = await createSnapshot(controller, request);
      context.note({ snapshot_id: record.id, pool: pool.name });
      return { snapshot: await presentSnapshot({ pool, record }) };
    },

    async DeleteSnapshot({ snapshot_id }, context) {
      const id = parseSnapshotId(snapshot_id);
      // No snapshot of ours has such an id, so there is nothing to delete (DS02).
      if (id === undefined) return {};
      context.note({ snapshot_id: id });
      return objects.run(id, 'DeleteSnapshot', '', async () => {
        // Nothing is removed before that.
        for (const pool of pools.known()) refuseMember(await pool.findSnapshot(id));
        const removed = await moves?.beforeSnapshotRemoval(id);
        const found = await pools.findSnapshot(id);
        if (found === undefined) {
          // Removes a copy for this snapshot that an interrupted first try left for the next one (T02).
          for (const pool of pools.all()) await pool.removeSnapshot(id);
          return {};
        }
        context.note({ pool: found.pool.name });
        refuseMember(found.record);
        await found.pool.removeSnapshot(id);
        await removed?.();
        return {};
      });
    },

    async ListSnapshots(request) {
      const page = parsePageRequest(request.starting_token, request.max_entries, parseSnapshotId);
      return listSnapshots(pools, page, request);
    },

    async GetSnapshot({ snapshot_id }, context) {
      const id = requireSnapshotId(snapshot_id);
      context.note({ snapshot_id: id });
      const found = await pools.findSnapshot(id);
      if (found === undefined) throw new NotFound(`There is no snapshot ${id} on this node.`);
      return { snapshot: await presentSnapshot(found) };
    },
  } satisfies ControllerHandlers;
}

/**
 * Returns the snapshot with that name, and takes it if there is none. Its id is locked meanwhile, and then its source.
 * @throws AlreadyExists if the snapshot exists with another source
 */
async function createSnapshot(
  { objects, nodeId, pools }: ControllerContext,
  request: SnapshotRequest,
): Promise<Found<SnapshotRecord>> {
  const { sourceId } = request;
  const id = snapshotIdFor(nodeId, request.name);
  return objects.run(id, 'CreateSnapshot', fingerprint(request), async () => {
    const existing = (await pools.findMadeSnapshot(id)) ?? takenElsewhere(pools, request);
    if (existing !== undefined) return replay(existing, request);
    const { pool } = await pools.require(sourceId);
    return objects.claim([sourceClaim(pool, sourceId)], 'CreateSnapshot', async () => {
      requireStillIn(pool, (await pools.require(sourceId)).pool, sourceId);
      const [record] = await pool.takeSnapshots([{ id, ...request }]);
      if (record === undefined) throw new InternalError(`pool ${pool.name} took no snapshot.`);
      return { pool, record };
    });
  });
}

/** The snapshot with that name that another node has taken, and that has followed its volume here: its id derives from that node. */
function takenElsewhere(pools: Pools, { name, sourceId }: SnapshotRequest): Found<SnapshotRecord> | undefined {
  for (const pool of pools.all()) {
    const snapshots = pool.moves?.snapshots;
    const record = snapshots
      ?.all(sourceId)
      .find((each) => each.name === name && each.groupId === undefined && !snapshots.isLeft(each.id));
    if (record !== undefined) return { pool, record };
  }
  return undefined;
}

/** Snapshots have no parameters of ours, so only the source can differ (CS04, CS05). */
function replay(existing: Found<SnapshotRecord>, { name, sourceId }: SnapshotRequest): Found<SnapshotRecord> {
  const { record } = existing;
  if (record.sourceId === sourceId) return existing;
  throw new AlreadyExists(
    `Snapshot ${record.id} of volume ${record.sourceId} already has the name ${JSON.stringify(name)}. Use another name.`,
  );
}

/** @throws InvalidArgument (DS04) */
function refuseMember(record: SnapshotRecord | undefined): void {
  if (record?.groupId === undefined) return;
  const { groupId, id } = record;
  throw new InvalidArgument(
    `Snapshot ${id} is a member of ${groupId} and is deleted with it: use DeleteVolumeGroupSnapshot.`,
  );
}
