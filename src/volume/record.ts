import { z } from 'zod';
import { type AccessMode, accessModes, type VolumeContent } from './capability.ts';
import { DataLoss } from './errors.ts';
import { filesystemTypes } from './filesystem.ts';
import { parseVolumeId, type VolumeId } from './id.ts';

export const provisionings = ['thin', 'thick'] as const;
/** thin: blocks are allocated when written; thick: all of them at creation. */
export type Provisioning = (typeof provisionings)[number];

/** What the pool durably knows of one volume. Never holds secrets or mount flags (X02, X03). */
export interface VolumeRecord {
  readonly id: VolumeId;
  /** As the caller gave it: any UTF-8 up to 128 bytes, never used as a path or an argument. */
  readonly name: string;
  readonly sizeBytes: bigint;
  readonly content: VolumeContent;
  /** The modes asked for at creation, in our own order; a replay must ask for the same (CV16, CV17). */
  readonly accessModes: readonly AccessMode[];
  readonly provisioning: Provisioning;
  /** The parameters of CreateVolume as they came, `csi.storage.k8s.io/` ones included. */
  readonly parameters: Readonly<Record<string, string>>;
  /** The logical block size of the volume's device, fixed at creation: a filesystem depends on it. */
  readonly blockSizeBytes: number;
  /** RFC 3339, UTC. */
  readonly createdAt: string;
}

/** How a record lies on disk. `format` grows when an older driver could misread what a newer one wrote. */
const recordFormat = 1;

const storedRecord = z.strictObject({
  format: z.literal(recordFormat),
  id: z.string(),
  name: z.string(),
  sizeBytes: z.string().regex(/^[0-9]{1,19}$/),
  content: z.discriminatedUnion('type', [
    z.strictObject({ type: z.literal('block') }),
    z.strictObject({ type: z.literal('mount'), fsType: z.enum(filesystemTypes) }),
  ]),
  accessModes: z.array(z.enum(accessModes)),
  provisioning: z.enum(provisionings),
  parameters: z.record(z.string(), z.string()),
  blockSizeBytes: z.int().positive(),
  createdAt: z.iso.datetime(),
});

export function serializeRecord(record: VolumeRecord): string {
  const stored = { format: recordFormat, ...record, sizeBytes: record.sizeBytes.toString() };
  return `${JSON.stringify(stored, null, 2)}\n`;
}

/** @throws DataLoss if the text is not a whole record of a format that we know */
export function parseRecord(text: string, where: string): VolumeRecord {
  const parsed = storedRecord.safeParse(parseJson(text));
  const id = parsed.success ? parseVolumeId(parsed.data.id) : undefined;
  if (!parsed.success || id === undefined) {
    const reason = parsed.success ? 'its id has the wrong shape' : z.prettifyError(parsed.error);
    throw new DataLoss(`The volume record ${where} cannot be read (${reason}). Its data is left as it is.`);
  }
  const { format: _format, ...fields } = parsed.data;
  return { ...fields, id, sizeBytes: BigInt(parsed.data.sizeBytes) };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
