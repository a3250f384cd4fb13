import type * as wire from '../../csi/generated/types.ts';
import type { Draft } from '../../csi/handler.ts';
import type { VolumeId } from '../../volume/id.ts';
import type { ControllerContext } from '../context.ts';
import { type PageRequest, readPage } from './page.ts';
import { volumesWithStatus } from './status.ts';

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
