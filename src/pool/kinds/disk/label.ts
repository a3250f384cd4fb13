import { createHash } from 'node:crypto';
import { z } from 'zod';
import { DataLoss } from '../../../volume/errors.ts';
import { parseVolumeId, type VolumeId } from '../../../volume/id.ts';
import { parseJsonInput } from '../../../volume/parse-input.ts';
import { parseRecord, serializeRecord, type VolumeRecord } from '../../../volume/record.ts';
import { parseStored } from '../../../volume/stored-json.ts';
import type { Deletion } from '../../catalog/trash-entry.ts';
import { crc32 } from './crc32.ts';
import { isPartOf, isZeros } from './gpt.ts';
import { labelPlace } from './layout.ts';

/*
 * How a label lies on the disk: two slots, written in turn. A slot has a header in one sector, which names the text behind
 * it by its SHA-256, and counts. The text is written first, the header after it is on the disk: so one of the slots is
 * whole at every moment, and the whole one that counts higher is the label.
 */

/** What a disk is used for. */
export type Use =
  | { readonly state: 'free' }
  /** A volume on its way; nobody goes on with one whose driver died. */
  | { readonly state: 'draft'; readonly id: VolumeId; readonly ref: string }
  | { readonly state: 'volume'; readonly record: VolumeRecord }
  /** Deleted: with `deletion` it is kept for a time, else it is on its way out. */
  | {
      readonly state: 'trash';
      readonly id: VolumeId;
      readonly ref: string;
      readonly record: VolumeRecord | undefined;
      readonly deletion: Deletion | undefined;
    };

export interface Label {
  /** The GUID of the disk's partition table: a label under another table is of an earlier life of the disk. */
  readonly diskId: string;
  /** The name of the pool whose disk it is. */
  readonly pool: string;
  readonly use: Use;
}

/** A label as it was read. */
export interface FoundLabel {
  readonly label: Label;
  /** How often it was written before. */
  readonly generation: bigint;
}

export const slotBytes = Number(labelPlace.lengthBytes) / 2;
/** Behind the header: a sector of any disk. */
const textAt = 4096;
const headerBytes = 512;
const magic = Buffer.from('HOLDFAST DISK\n\0\0', 'latin1');
const largestText = slotBytes - textAt;

/** What is to be written, in this order, each durably, from the start of the label's place. */
export interface EncodedLabel {
  readonly text: { readonly offset: number; readonly bytes: Buffer };
  /** One sector: from then on it is the label. */
  readonly header: { readonly offset: number; readonly bytes: Buffer };
}

export function encodeLabel(label: Label, generation: bigint, sectorBytes: number): EncodedLabel {
  const text = Buffer.from(serialize(label));
  if (text.length > largestText) throw new RangeError(`a label of ${text.length} bytes does not fit`);
  const slot = Number(generation % 2n) * slotBytes;
  const padded = Buffer.alloc(Math.ceil(text.length / sectorBytes) * sectorBytes);
  text.copy(padded);
  const header = Buffer.alloc(sectorBytes);
  magic.copy(header);
  header.writeBigUInt64LE(generation, 16);
  header.writeUInt32LE(text.length, 24);
  createHash('sha256').update(text).digest().copy(header, 32);
  header.writeUInt32LE(crc32(header.subarray(0, headerBytes - 4)), headerBytes - 4);
  return { text: { offset: slot + textAt, bytes: padded }, header: { offset: slot, bytes: header } };
}

/**
 * The label in what was read from its place, for the disk with this id; undefined: there is none.
 * @throws DataLoss if it is damaged, or of a format that we do not know
 */
export function decodeLabel(bytes: Buffer, diskId: string, where: string): FoundLabel | undefined {
  const found = decodeNewest(bytes, where);
  return found?.label.diskId === diskId ? found : undefined;
}

function decodeNewest(bytes: Buffer, where: string): FoundLabel | undefined {
  const slots = [0, slotBytes].map((at) => readSlot(bytes.subarray(at, at + slotBytes)));
  const [newest, other] = slots.toSorted((a, b) => (wholeGeneration(a) > wholeGeneration(b) ? -1 : 1));
  if (newest?.text === undefined || newest.generation === undefined) return undefined;
  const label = parse(newest.text, where);
  // A write that was cut short leaves the older slot as it was, or its header. Else the one that is damaged was the newer
  // one. A volume is one still; but what had none before may have one by now, and would be given to another.
  const isCutShort =
    other?.generation === newest.generation - 1n || (other?.isBlank === true && newest.generation === 1n);
  if (!isCutShort && label.use.state !== 'volume') throw new DataLoss(`${where}: the label of the disk is damaged.`);
  return { label, generation: newest.generation };
}

interface Slot {
  /** Its header has nothing in it. */
  readonly isBlank: boolean;
  /** undefined: it has no header that is whole. */
  readonly generation: bigint | undefined;
  /** undefined: it is not the one that the header names. */
  readonly text: string | undefined;
}

function wholeGeneration({ generation, text }: Slot): bigint {
  return text === undefined ? -1n : (generation ?? -1n);
}

function readSlot(slot: Buffer): Slot {
  const header = slot.subarray(0, headerBytes);
  const none = { isBlank: isZeros(header), generation: undefined, text: undefined };
  if (!header.subarray(0, magic.length).equals(magic)) return none;
  if (header.readUInt32LE(headerBytes - 4) !== crc32(header.subarray(0, headerBytes - 4))) return none;
  const length = header.readUInt32LE(24);
  if (length > largestText) return none;
  const text = slot.subarray(textAt, textAt + length);
  const isWhole = createHash('sha256').update(text).digest().equals(header.subarray(32, 64));
  const generation = header.readBigUInt64LE(16);
  return { isBlank: false, generation, text: isWhole ? text.toString('utf8') : undefined };
}

/** What lies at the place of the label on a disk whose partition table is not ours, or not yet. */
export type Remnant =
  /** Nothing, or the label of a disk that was free, or one on its way there. @property generation how far it had counted */
  | { readonly kind: 'free'; readonly generation: bigint }
  /** A label that says that the disk is in use: its table was lost. */
  | { readonly kind: 'used'; readonly what: string }
  | { readonly kind: 'foreign' };

/** @throws DataLoss as `decodeLabel` does */
export function judgeRemnant(bytes: Buffer, sectorBytes: number, where: string): Remnant {
  if (isZeros(bytes)) return { kind: 'free', generation: 0n };
  const found = decodeNewest(bytes, where);
  if (found === undefined) {
    return isFirstLabelBegun(bytes, sectorBytes) ? { kind: 'free', generation: 0n } : { kind: 'foreign' };
  }
  const { use } = found.label;
  if (use.state === 'free') return { kind: 'free', generation: found.generation };
  return { kind: 'used', what: `volume ${use.state === 'volume' ? use.record.id : use.id}` };
}

/** Compares with what we would have written of the label whose text is there, without its header still. */
function isFirstLabelBegun(bytes: Buffer, sectorBytes: number): boolean {
  const at = slotBytes + textAt;
  const text = bytes
    .subarray(at, at + sectorBytes)
    .toString('utf8')
    .replace(/\0+$/, '');
  const parsed = parseJsonInput(storedLabel, text);
  const stored = 'data' in parsed ? parsed.data : undefined;
  if (stored?.state !== 'free') return false;
  const { diskId, pool } = stored;
  const label = encodeLabel({ diskId, pool, use: { state: 'free' } }, 1n, sectorBytes);
  const expected = Buffer.alloc(bytes.length);
  for (const piece of [label.text, label.header]) piece.bytes.copy(expected, piece.offset);
  return isPartOf(bytes, expected, sectorBytes);
}

const labelFormat = 1;

const storedDeletion = z.strictObject({
  deletedAt: z.iso.datetime(),
  purgeAt: z.iso.datetime(),
  poolAgeMs: z.number().optional(),
});

const storedLabel = z.strictObject({
  format: z.literal(labelFormat),
  diskId: z.uuid(),
  pool: z.string(),
  state: z.enum(['free', 'draft', 'volume', 'trash']),
  id: z.string().optional(),
  ref: z.string().optional(),
  /** As it lies in files of other kinds, whole. */
  record: z.string().optional(),
  deletion: storedDeletion.optional(),
});

function serialize({ diskId, pool, use }: Label): string {
  const { state } = use;
  const fields = { format: labelFormat, diskId, pool, state };
  if (use.state === 'free') return JSON.stringify(fields);
  if (use.state === 'draft') return JSON.stringify({ ...fields, id: use.id, ref: use.ref });
  const record = use.record === undefined ? undefined : serializeRecord(use.record);
  if (use.state === 'volume') return JSON.stringify({ ...fields, record });
  return JSON.stringify({ ...fields, id: use.id, ref: use.ref, record, deletion: use.deletion });
}

function parse(text: string, where: string): Label {
  const { deletion, diskId, id: idText, pool, record: recordText, ref, state } = parseStored(storedLabel, text, where);
  const record = recordText === undefined ? undefined : parseRecord(recordText, where);
  const id = parseVolumeId(idText ?? '');
  const label = (use: Use): Label => ({ diskId, pool, use });
  if (state === 'free') return label({ state });
  if (state === 'volume' && record !== undefined) return label({ state, record });
  if (id !== undefined && ref !== undefined) {
    if (state === 'draft') return label({ state, id, ref });
    if (state === 'trash') return label({ state, id, ref, record, deletion });
  }
  throw new DataLoss(`${where}: the label of the disk is not whole.`);
}
