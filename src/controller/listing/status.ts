import type * as wire from '../../csi/generated/types.ts';
import type { Draft } from '../../csi/handler.ts';
import { shortMessage } from '../../csi/short-message.ts';
import { conditionIn, conditionsIn, silentCondition } from '../../pool/condition.ts';
import type { Condition } from '../../pool/pool.ts';
import type { FoundVolume } from '../../pool/pools.ts';
import { DataLoss } from '../../volume/errors.ts';
import type { VolumeId } from '../../volume/id.ts';
import { publicationsOf } from '../../volume/record.ts';
import type { ControllerContext } from '../context.ts';
import { presentVolume } from '../present.ts';
import { type PageRequest, readPage } from './page.ts';

type VolumeWithStatus = Draft<wire.ControllerGetVolumeResponse>;

/** Returns a volume, its condition, and the node that it is published to, if `attach` requires that (G04, G05). */
async function volumeWithStatus(controller: ControllerContext, volume: FoundVolume): Promise<VolumeWithStatus> {
  return presentStatus(controller, volume, await conditionIn(volume.pool, volume.record.id));
}

/** The same for several volumes, in their order. */
async function volumesWithStatus(
  controller: ControllerContext,
  volumes: readonly FoundVolume[],
): Promise<VolumeWithStatus[]> {
  const conditions = await conditionsIn(volumes.map(({ pool, record: { id } }) => ({ pool, id })));
  return volumes.map((volume, at) => presentStatus(controller, volume, conditions[at] ?? silentCondition));
}

function presentStatus(controller: ControllerContext, volume: FoundVolume, found: Condition): VolumeWithStatus {
  const { abnormal, message } = unlessBusy(controller, volume, found);
  return {
    volume: presentVolume(volume, controller.topology),
    status: {
      volume_condition: { abnormal, message: shortMessage(message) },
      published_node_ids: publishedNodeIds(controller, volume),
    },
  };
}

/** A node that lost a volume without a call, such as a machine that was made again, gets it again once it is not listed. */
function publishedNodeIds({ attach }: ControllerContext, { pool, record }: FoundVolume): string[] {
  if (attach !== 'required') return [];
  const publisher = pool.cluster?.publisher;
  const nodeIds = publicationsOf(record).map(({ nodeId }) => nodeId);
  return nodeIds.filter((nodeId) => publisher?.isPublished(record.id, nodeId) !== false);
}

/**
 * Hides an abnormal condition while a call for the volume is in progress: a volume that is being deleted looks damaged.
 */
function unlessBusy({ objects }: ControllerContext, { record }: FoundVolume, condition: Condition): Condition {
  if (!condition.abnormal || !objects.busy(record.id)) return condition;
  return { abnormal: false, message: 'Another call for the volume is in progress.' };
}

/**
 * Returns one volume, even a broken one: the request is no error (GV04). A volume whose record cannot be read has an
 * unknown size, which is 0 in CSI.
 * @throws NotFound
 */
export async function volumeById(controller: ControllerContext, id: VolumeId): Promise<VolumeWithStatus> {
  const { pools, topology } = controller;
  let found: FoundVolume;
  try {
    found = await pools.require(id);
  } catch (error) {
    if (!(error instanceof DataLoss)) throw error;
    return {
      volume: {
        volume_id: id,
        capacity_bytes: 0n,
        accessible_topology: topology === undefined ? [] : [{ segments: topology }],
      },
      status: { volume_condition: { abnormal: true, message: shortMessage(error.message) } },
    };
  }
  return volumeWithStatus(controller, found);
}

/** Returns a page of all volumes. */
export async function listVolumes(
  controller: ControllerContext,
  request: PageRequest<VolumeId>,
): Promise<Draft<wire.ListVolumesResponse>> {
  const { entries, nextToken } = await readPage(controller.pools, request, (pool, after, limit) =>
    pool.list(after, limit),
  );
  const withStatus = await volumesWithStatus(controller, entries);
  const isThere = await Promise.all(
    entries.map(async ({ pool, record }) => (await pool.find(record.id)) !== undefined),
  );
  // Leaves out volumes that were deleted meanwhile.
  return { entries: withStatus.filter((_, at) => isThere[at] === true), next_token: nextToken };
}
