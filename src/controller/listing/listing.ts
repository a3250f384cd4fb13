import type * as wire from '../../csi/generated/types.ts';
import type { Draft } from '../../csi/handler.ts';
import type { FoundVolume } from '../../pool/pools.ts';
import type { VolumeId } from '../../volume/id.ts';
import type { ControllerContext } from '../context.ts';
import { type PageRequest, readPage } from './page.ts';
import { volumeWithStatus } from './status.ts';

/** A page of all volumes. */
export async function listVolumes(
  controller: ControllerContext,
  request: PageRequest<VolumeId>,
): Promise<Draft<wire.ListVolumesResponse>> {
  const { entries, nextToken } = await readPage(controller.pools, request, (pool, after, limit) =>
    pool.list(after, limit),
  );
  return {
    entries: (await Promise.all(entries.map((volume) => entryOf(controller, volume)))).flat(),
    next_token: nextToken,
  };
}

/** The volume's entry; none if it was deleted while we looked. */
async function entryOf(
  controller: ControllerContext,
  volume: FoundVolume,
): Promise<Draft<wire.ListVolumesResponseEntry>[]> {
  const entry = await volumeWithStatus(controller, volume);
  return (await volume.pool.find(volume.record.id)) === undefined ? [] : [entry];
}
