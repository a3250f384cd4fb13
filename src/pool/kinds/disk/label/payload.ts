import { z } from 'zod';
import type { DiskIdentity } from '../../../../kernel/block/disk-identity.ts';
import type { VolumeId } from '../../../../volume/id.ts';
import { parseRecord, serializeRecord, type VolumeRecord } from '../../../../volume/record.ts';
import { parseStored, storedBytes } from '../../../../volume/stored-json.ts';
import type { Deletion } from '../../../indexes/trash-entry.ts';
import { storedDeletion } from '../../../records/trash-files.ts';
import { idOfObject } from '../names.ts';
import type { SlotFormat } from './slots.ts';

const objectStates = ['draft', 'volume', 'trash', 'removed'] as const;
/** draft: it is being made. trash: it can be brought back. removed: it is wiped, and then gone. */
export type ObjectState = (typeof objectStates)[number];

/** The object that a disk holds. */
export interface StoredObject {
  /** The volume's id, and something that nothing had before: so what one volume was is never taken for the next. */
  readonly name: string;
  readonly state: ObjectState;
  /** In the stored form; undefined: it is not whole yet. */
  readonly record?: string | undefined;
  readonly deletion?: Deletion | undefined;
  /** The mark of a volume that has moved, or is about to (`catalog/move-mark.ts`). It goes into the trash with it. */
  readonly mark?: string | undefined;
  /** The note of the mover, of a draft that comes from another pool: its move resumes it. Empty until something is written to it. */
  readonly incoming?: string | undefined;
}

/** The content of a label. */
export interface Payload {
  readonly poolId: string;
  /** The disk that it was written on. */
  readonly disk: DiskIdentity;
  readonly data: { readonly offsetBytes: bigint; readonly lengthBytes: bigint };
  readonly age?: string | undefined;
  readonly object?: StoredObject | undefined;
}

/** A label as it is stored. */
export const storedPayload = z.strictObject({
  poolId: z.uuid(),
  disk: z.strictObject({ name: z.string(), sizeBytes: storedBytes }),
  data: z.strictObject({ offsetBytes: storedBytes, lengthBytes: storedBytes }),
  age: z.string().optional(),
  object: z
    .strictObject({
      name: z.string().refine((name) => idOfObject(name) !== undefined, 'is no name of a volume'),
      state: z.enum(objectStates),
      record: z.string().optional(),
      deletion: storedDeletion.optional(),
      mark: z.string().optional(),
      incoming: z.string().optional(),
    })
    .optional(),
});

type StoredPayload = z.infer<typeof storedPayload>;

export function toStored({ age, data, disk, object, poolId }: Payload): StoredPayload {
  return {
    poolId,
    disk: { name: disk.name, sizeBytes: `${disk.sizeBytes}` },
    data: { offsetBytes: `${data.offsetBytes}`, lengthBytes: `${data.lengthBytes}` },
    age,
    object,
  };
}

export function fromStored({ age, data, disk, object, poolId }: StoredPayload): Payload {
  return {
    poolId,
    disk: { name: disk.name, sizeBytes: BigInt(disk.sizeBytes) },
    data: { offsetBytes: BigInt(data.offsetBytes), lengthBytes: BigInt(data.lengthBytes) },
    age,
    object,
  };
}

/** A driver that knows of no moves would use a copy that was handed over, or clear a draft away that waits for its hand-over. */
export function formatOf({ object }: Payload): SlotFormat {
  return object?.mark === undefined && object?.incoming === undefined ? 1 : 2;
}

export function serializePayload(payload: Payload): string {
  return JSON.stringify(toStored(payload));
}

/** @throws DataLoss */
export function parsePayload(text: string, where: string): Payload {
  return fromStored(parseStored(storedPayload, text, where));
}

export function storedRecord(record: VolumeRecord): string {
  return JSON.stringify(JSON.parse(serializeRecord(record)));
}

/** @throws DataLoss */
export function recordOf({ record }: StoredObject, where: string): VolumeRecord {
  return parseRecord(record ?? '', where);
}

export function idOf({ name }: StoredObject): VolumeId | undefined {
  return idOfObject(name);
}
