import type * as wire from '../csi/generated/types.ts';
import type { Draft } from '../csi/handler.ts';
import type { TopologySegments } from '../csi/parse.ts';
import type { ListedSnapshot } from '../pool/pool.ts';
import type { Found, FoundVolume } from '../pool/pools.ts';
import { contextOf } from '../pool/volume-context.ts';
import type { VolumeSource } from '../volume/record.ts';
import type { SnapshotRecord } from '../volume/snapshot-record.ts';
import { restoreBytes } from './volumes/volume-spec.ts';

/**
 * A volume as every RPC shows it, always the same (CV31, Y06, LV04). volume_context stays empty for a volume on this
 * node, where its id is enough to find it.
 * @param here undefined: every node can reach it
 */
export function presentVolume({ pool, record }: FoundVolume, here: TopologySegments | undefined): Draft<wire.Volume> {
  const where = pool.cluster?.topologyOf?.(record) ?? here;
  return {
    volume_id: record.id,
    capacity_bytes: record.sizeBytes,
    accessible_topology: where === undefined ? [] : [{ segments: where }],
    volume_context: contextOf(pool, record),
    ...(record.source === undefined ? {} : { content_source: presentSource(record.source) }),
  };
}

type FoundSnapshot = Found<ListedSnapshot>;

function presentSource({ id, type }: VolumeSource): Draft<wire.VolumeContentSource> {
  return type === 'snapshot' ? { snapshot: { snapshot_id: id } } : { volume: { volume_id: id } };
}

/**
 * A snapshot as every RPC shows it, always the same (CS04) but for this: where nothing is copied behind the answer, one that
 * exists is ready (CS08), unless it waits between two pools.
 */
export async function presentSnapshot({ pool, record }: FoundSnapshot): Promise<Draft<wire.Snapshot>> {
  const { isSnapshotReady } = pool.cluster ?? {};
  return presentReadySnapshot(record, record.isLeft !== true && ((await isSnapshotReady?.(record.id)) ?? true));
}

export function presentReadySnapshot(record: SnapshotRecord, isReady = true): Draft<wire.Snapshot> {
  return {
    size_bytes: restoreBytes(record),
    snapshot_id: record.id,
    source_volume_id: record.sourceId,
    creation_time: presentTime(record.createdAt),
    ready_to_use: isReady,
    group_snapshot_id: record.groupId ?? '',
  };
}

/** Converts RFC 3339 to a Timestamp. */
export function presentTime(text: string): Draft<wire.Timestamp> {
  const milliseconds = Date.parse(text);
  return { seconds: BigInt(Math.floor(milliseconds / 1000)), nanos: (milliseconds % 1000) * 1_000_000 };
}
