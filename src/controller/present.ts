import type * as wire from '../csi/generated/types.ts';
import type { Draft } from '../csi/handler.ts';
import type { TopologySegments } from '../csi/parse.ts';
import type { FoundVolume } from '../pool/pools.ts';
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
  return {
    volume_id: record.id,
    capacity_bytes: record.sizeBytes,
    accessible_topology: here === undefined ? [] : [{ segments: here }],
    volume_context: contextOf(pool, record),
    ...(record.source === undefined ? {} : { content_source: presentSource(record.source) }),
  };
}

function presentSource({ id, type }: VolumeSource): Draft<wire.VolumeContentSource> {
  return type === 'snapshot' ? { snapshot: { snapshot_id: id } } : { volume: { volume_id: id } };
}

/**
 * A snapshot as every RPC shows it, always the same (CS04). A snapshot that exists is complete, so it is ready (CS08).
 */
export function presentSnapshot(record: SnapshotRecord): Draft<wire.Snapshot> {
  return {
    size_bytes: restoreBytes(record),
    snapshot_id: record.id,
    source_volume_id: record.sourceId,
    creation_time: presentTime(record.createdAt),
    ready_to_use: true,
    group_snapshot_id: record.groupId ?? '',
  };
}

/** Converts RFC 3339 to a Timestamp. */
export function presentTime(text: string): Draft<wire.Timestamp> {
  const milliseconds = Date.parse(text);
  return { seconds: BigInt(Math.floor(milliseconds / 1000)), nanos: (milliseconds % 1000) * 1_000_000 };
}

/** The limit of CSI for a message within a response (L07). */
const longestMessageBytes = 128;

/** Cuts a text at a character if it is too long for a message field. */
export function shortMessage(text: string): string {
  if (Buffer.byteLength(text) <= longestMessageBytes) return text;
  let short = '';
  for (const character of text) {
    if (Buffer.byteLength(`${short}${character}…`) > longestMessageBytes) break;
    short += character;
  }
  return `${short}…`;
}
