import type * as wire from '../../csi/generated/types.ts';
import type { Draft } from '../../csi/handler.ts';
import type { Found, Pools } from '../../pool/pools.ts';
import { parseSnapshotId, parseVolumeId, type SnapshotId } from '../../volume/id.ts';
import type { SnapshotRecord } from '../../volume/snapshot-record.ts';
import { presentSnapshot } from '../present.ts';
import { type PageRequest, readPage } from './page.ts';

/**
 * The snapshots that a caller wants to see; an empty text does not filter. Both together: snapshots that match both
 * (LS07).
 */
type Filter = Pick<wire.ListSnapshotsRequest, 'snapshot_id' | 'source_volume_id'>;

/**
 * Returns a page of all snapshots, or of those that match the filter. Ids that no snapshot has, or can have, are no
 * error: the list is empty (LS03, LS05).
 */
export async function listSnapshots(
  pools: Pools,
  page: PageRequest<SnapshotId>,
  filter: Filter,
): Promise<Draft<wire.ListSnapshotsResponse>> {
  if (filter.snapshot_id !== '') return { entries: await entriesOf(await onlySnapshot(pools, page, filter)) };
  const sourceId = parseVolumeId(filter.source_volume_id);
  if (sourceId === undefined && filter.source_volume_id !== '') return {};
  const { entries, nextToken } = await readPage(pools, page, (pool, after, limit) =>
    pool.listSnapshots(after, limit, sourceId, true),
  );
  return { entries: await entriesOf(entries), next_token: nextToken };
}

async function onlySnapshot(
  pools: Pools,
  { after }: PageRequest<SnapshotId>,
  filter: Filter,
): Promise<Found<SnapshotRecord>[]> {
  const id = parseSnapshotId(filter.snapshot_id);
  if (id === undefined || (after !== undefined && id <= after)) return [];
  const found = await pools.findSnapshot(id);
  const isWanted = filter.source_volume_id === '' || filter.source_volume_id === found?.record.sourceId;
  return found !== undefined && isWanted ? [found] : [];
}

function entriesOf(found: readonly Found<SnapshotRecord>[]): Promise<Draft<wire.ListSnapshotsResponseEntry>[]> {
  return Promise.all(found.map(async (each) => ({ snapshot: await presentSnapshot(each) })));
}
