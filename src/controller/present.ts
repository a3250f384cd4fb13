import type * as wire from '../csi/generated/types.ts';
import type { Draft } from '../csi/handler.ts';
import type { TopologySegments } from '../csi/parse.ts';
import type { VolumeRecord } from '../volume/record.ts';

/**
 * A volume as every RPC shows it, the same each time (CV31, Y06, LV04). volume_context stays empty: the id is enough
 * to find a volume.
 */
export function presentVolume(record: VolumeRecord, here: TopologySegments): Draft<wire.Volume> {
  return {
    volume_id: record.id,
    capacity_bytes: record.sizeBytes,
    accessible_topology: [{ segments: here }],
  };
}

/** The limit of CSI for a message within a response (L07). */
const longestMessageBytes = 128;

/** The text, cut at a character if it is too long for a message field. */
export function shortMessage(text: string): string {
  if (Buffer.byteLength(text) <= longestMessageBytes) return text;
  let short = '';
  for (const character of text) {
    if (Buffer.byteLength(`${short}${character}…`) > longestMessageBytes) break;
    short += character;
  }
  return `${short}…`;
}
