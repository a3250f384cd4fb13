import { z } from 'zod';
import { type AccessMode, accessModes, type VolumeContent } from './capability.ts';
import { type Encryption, storedEncryption } from './encryption.ts';
import { parseSnapshotId, parseVolumeId, type SnapshotId, type VolumeId } from './id.ts';
import {
  indented,
  parseStored,
  storedAccessModes,
  storedBytes,
  storedContent,
  storedParameters,
  unreadable,
} from './stored-json.ts';

export const provisionings = ['thin', 'thick'] as const;
/** thin: blocks are allocated when written; thick: all of them at creation. */
export type Provisioning = (typeof provisionings)[number];

/** A pool's durable record of one volume. Never has secrets or mount flags (X02, X03). */
export interface VolumeRecord {
  readonly id: VolumeId;
  /** The name as the caller gave it: any UTF-8 up to 128 bytes, never used as a path or an argument. */
  readonly name: string;
  readonly sizeBytes: bigint;
  readonly content: VolumeContent;
  /** The modes asked for at creation, in our own order; a replay must ask for the same (CV16, CV17). */
  readonly accessModes: readonly AccessMode[];
  readonly provisioning: Provisioning;
  /** The parameters of CreateVolume, unchanged, including those of `csi.storage.k8s.io/`. */
  readonly parameters: Readonly<Record<string, string>>;
  /**
   * The mutable parameters of CreateVolume, unchanged. They take precedence over `parameters`. Later changes are not in
   * here.
   */
  readonly mutableParameters?: Readonly<Record<string, string>>;
  /** The logical block size of the volume's device. Fixed at creation: a filesystem depends on it. */
  readonly blockSizeBytes: number;
  /** Time of creation, RFC 3339, UTC. */
  readonly createdAt: string;
  /** The snapshot or volume that it was copied from. */
  readonly source?: VolumeSource;
  /** Time for which it can be restored after its deletion; 0: not at all. Unset: the pool's setting. */
  readonly undeleteSeconds?: number;
  /** The node that it is published to, for drivers that require ControllerPublishVolume before NodeStageVolume. */
  readonly publication?: Publication;
  /** The other nodes, if there are several: only volumes that every node can reach have that. */
  readonly otherPublications?: readonly Publication[];
  /** Set for a pod's inline volume, which NodePublishVolume makes and NodeUnpublishVolume removes. */
  readonly ephemeral?: Ephemeral;
  /** Set once its filesystem has been repaired. */
  readonly repair?: Repair;
  /** Set if the volume was adopted: its data existed before. */
  readonly adopted?: Adopted;
  /** Unset: the volume is not encrypted. */
  readonly encryption?: Encryption;
}

/** The origin of a volume whose data was not written by this driver. */
export interface Adopted {
  /** The path that the data returns to when the volume is released. */
  readonly path: string;
}

/** The last repair of a volume's filesystem. */
export interface Repair {
  /** Time of the repair, RFC 3339, UTC. */
  readonly at: string;
  /** The volume in the trash that has the state before the repair. */
  readonly originalId: VolumeId;
}

/** The request that an ephemeral volume was made for. */
export interface Ephemeral {
  /** The volume_id that the container orchestrator made up for it. */
  readonly handle: string;
  /** A keyed hash of the capability, whose mount flags may be sensitive (X02). */
  readonly digest: string;
}

/**
 * The node and the mode that a volume is published to. Mount flags are not in here: only the caller and the node know
 * them (X02).
 */
export interface Publication {
  readonly nodeId: string;
  readonly mode: AccessMode;
  readonly readonly: boolean;
}

/** All nodes that a volume is published to. */
export function publicationsOf({
  otherPublications = [],
  publication,
}: Pick<VolumeRecord, 'otherPublications' | 'publication'>): readonly Publication[] {
  return publication === undefined ? [] : [publication, ...otherPublications];
}

/** The source of a new volume's content. Source and volume are independent afterwards (CV25). */
export type VolumeSource =
  | { readonly type: 'snapshot'; readonly id: SnapshotId }
  | { readonly type: 'volume'; readonly id: VolumeId };

/** A record on disk. `format` grows when an older driver could misread a newer one's record. */
const recordFormat = 1;

const storedPublication = z.strictObject({ nodeId: z.string(), mode: z.enum(accessModes), readonly: z.boolean() });

const storedRecord = z.strictObject({
  format: z.literal(recordFormat),
  id: z.string(),
  name: z.string(),
  sizeBytes: storedBytes,
  content: storedContent,
  accessModes: storedAccessModes,
  provisioning: z.enum(provisionings),
  parameters: storedParameters,
  blockSizeBytes: z.int().positive(),
  createdAt: z.iso.datetime(),
  source: z
    .discriminatedUnion('type', [
      z.strictObject({ type: z.literal('snapshot'), id: z.string() }),
      z.strictObject({ type: z.literal('volume'), id: z.string() }),
    ])
    .optional(),
  mutableParameters: storedParameters.optional(),
  undeleteSeconds: z.int().nonnegative().optional(),
  publication: storedPublication.optional(),
  otherPublications: z.array(storedPublication).min(1).optional(),
  ephemeral: z.strictObject({ handle: z.string(), digest: z.string() }).optional(),
  repair: z.strictObject({ at: z.iso.datetime(), originalId: z.string() }).optional(),
  adopted: z.strictObject({ path: z.string() }).optional(),
  encryption: storedEncryption.optional(),
});

export function serializeRecord(record: VolumeRecord): string {
  const stored = { format: recordFormat, ...record, sizeBytes: record.sizeBytes.toString() };
  return indented(stored);
}

/** @throws DataLoss if the text is not a complete record of a known format */
export function parseRecord(text: string, where: string): VolumeRecord {
  const {
    format: _format,
    adopted,
    encryption,
    ephemeral,
    source,
    mutableParameters,
    otherPublications,
    publication,
    repair,
    undeleteSeconds,
    ...fields
  } = parseStored(storedRecord, text, where);
  const id = parseVolumeId(fields.id);
  if (id === undefined) throw unreadable(where, 'its id has the wrong shape');
  return {
    ...fields,
    id,
    sizeBytes: BigInt(fields.sizeBytes),
    ...(source === undefined ? {} : { source: parseSource(source, where) }),
    ...(mutableParameters === undefined ? {} : { mutableParameters }),
    ...(undeleteSeconds === undefined ? {} : { undeleteSeconds }),
    ...(publication === undefined ? {} : { publication }),
    ...(otherPublications === undefined ? {} : { otherPublications }),
    ...(ephemeral === undefined ? {} : { ephemeral }),
    ...(repair === undefined ? {} : { repair: parseRepair(repair, where) }),
    ...(adopted === undefined ? {} : { adopted }),
    ...(encryption === undefined ? {} : { encryption }),
  };
}

function parseRepair({ at, originalId: text }: { at: string; originalId: string }, where: string): Repair {
  const originalId = parseVolumeId(text);
  if (originalId === undefined) throw unreadable(where, 'the id of what it was before its repair has the wrong shape');
  return { at, originalId };
}

function parseSource(source: { type: 'snapshot' | 'volume'; id: string }, where: string): VolumeSource {
  const snapshot = source.type === 'snapshot' ? parseSnapshotId(source.id) : undefined;
  if (snapshot !== undefined) return { type: 'snapshot', id: snapshot };
  const volume = source.type === 'volume' ? parseVolumeId(source.id) : undefined;
  if (volume !== undefined) return { type: 'volume', id: volume };
  throw unreadable(where, "its source's id has the wrong shape");
}
