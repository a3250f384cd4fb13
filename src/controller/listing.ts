import type * as wire from '../csi/generated/types.ts';
import type { Draft } from '../csi/handler.ts';
import type { FoundVolume } from '../pool/pools.ts';
import { Aborted } from '../volume/errors.ts';
import { parseVolumeId, type VolumeId } from '../volume/id.ts';
import type { ControllerContext } from './context.ts';
import { volumeWithStatus } from './status.ts';

/**
 * The most entries in one answer, asked for or not: an entry has at most 300 bytes, and clients take 4 MiB.
 * More follow under next_token.
 */
const largestPage = 10_000;

export interface PageRequest {
  /** Only ids greater than this. */
  readonly after: VolumeId | undefined;
  readonly maximumEntries: number;
}

/**
 * A token is the last id of the page before. It stays good when that volume is deleted, and no volume that stays is
 * shown twice or left out (N02).
 * @throws Aborted for anything else: the caller lists again from the start (LV02)
 */
export function parsePageRequest(startingToken: string, maxEntries: number): PageRequest {
  const after = startingToken === '' ? undefined : parseVolumeId(startingToken);
  if (startingToken !== '' && after === undefined) {
    throw new Aborted('starting_token is not one that ListVolumes gave: list again without a token.');
  }
  return { after, maximumEntries: maxEntries === 0 ? largestPage : Math.min(maxEntries, largestPage) };
}

/**
 * A page of all volumes of all pools, by id.
 * @throws Unavailable if a pool is not open: a list without its volumes would say that they are gone (LV04)
 */
export async function listVolumes(
  controller: ControllerContext,
  { after, maximumEntries }: PageRequest,
): Promise<Draft<wire.ListVolumesResponse>> {
  // Each pool may have to fill the page alone, and one more volume shows that another page follows.
  const lists = await Promise.all(
    controller.pools.names().map(async (name) => {
      const pool = controller.pools.get(name);
      return (await pool.list(after, maximumEntries + 1)).map((record): FoundVolume => ({ pool, record }));
    }),
  );
  const volumes = lists.flat().sort((a, b) => (a.record.id < b.record.id ? -1 : 1));
  const page = volumes.slice(0, maximumEntries);
  return {
    entries: (await Promise.all(page.map((volume) => entryOf(controller, volume)))).flat(),
    next_token: volumes.length > page.length ? (page.at(-1)?.record.id ?? '') : '',
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
