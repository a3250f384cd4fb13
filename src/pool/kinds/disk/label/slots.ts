import { createHash } from 'node:crypto';

/*
 * Two places for one text, of which the newest whole one counts. A write goes to the older one first: cut short, or torn,
 * it leaves the text before it. Then it goes to the other one, too: so if one is damaged later, nothing is taken back.
 */

export const slotBytes = 64 << 10;
export const slotCount = 2;

/** Where the pool's health is tried by writing: behind the slots, in the label. */
export const probeAt = BigInt(slotBytes * slotCount);
export const stampBytes = 4096;

const magic = Buffer.from('HOLDFAST LABEL\r\n');
/** The part of a slot before its text: magic, format, length, sequence, digest. */
const headBytes = 64;
const digestAt = 32;
/** The second one is that of a text with fields of a move, which drivers before it must not pass over. */
const formats = [1, 2] as const;
export type SlotFormat = (typeof formats)[number];
/** A slot is written as far as its text goes, in blocks that every disk takes. */
const blockBytes = 4096;

export interface Slot {
  readonly index: number;
  readonly sequence: bigint;
  readonly text: string;
}

/** The result of reading the slots. */
export type SlotsFound =
  | { readonly kind: 'slot'; readonly slot: Slot; readonly isMirrored: boolean }
  /** A driver wrote one that knows more than this. */
  | { readonly kind: 'newer' }
  | { readonly kind: 'none' };

/** @throws RangeError if the text is too long */
export function encodeSlot(sequence: bigint, text: string, format: SlotFormat = 1): Buffer {
  const payload = Buffer.from(text);
  const lengthBytes = headBytes + payload.length;
  if (lengthBytes > slotBytes) throw new RangeError(`a label cannot hold ${payload.length} bytes`);
  const slot = Buffer.alloc(Math.ceil(lengthBytes / blockBytes) * blockBytes);
  magic.copy(slot);
  slot.writeUInt32LE(format, 16);
  slot.writeUInt32LE(payload.length, 20);
  slot.writeBigUInt64LE(sequence, 24);
  payload.copy(slot, headBytes);
  digestOf(slot, lengthBytes).copy(slot, digestAt);
  return slot;
}

/** @param bytes the beginning of a label */
export function readSlots(bytes: Buffer): SlotsFound {
  const found = Array.from({ length: slotCount }, (_, index) =>
    readSlot(index, bytes.subarray(index * slotBytes, (index + 1) * slotBytes)),
  );
  // It may be the newest one: nothing older counts then.
  if (found.includes('newer')) return { kind: 'newer' };
  const whole = found.filter((slot) => slot !== undefined && slot !== 'newer');
  const [newest] = whole.sort((a, b) => (a.sequence > b.sequence ? -1 : 1));
  if (newest === undefined) return { kind: 'none' };
  const isMirrored = whole.length === slotCount && whole.every(({ text }) => text === newest.text);
  return { kind: 'slot', slot: newest, isMirrored };
}

function readSlot(index: number, slot: Buffer): Slot | 'newer' | undefined {
  if (slot.length < slotBytes || !slot.subarray(0, magic.length).equals(magic)) return undefined;
  const lengthBytes = headBytes + slot.readUInt32LE(20);
  if (lengthBytes > slotBytes || !digestOf(slot, lengthBytes).equals(slot.subarray(digestAt, headBytes)))
    return undefined;
  const format = slot.readUInt32LE(16);
  if (formats.every((each) => each !== format)) return 'newer';
  return { index, sequence: slot.readBigUInt64LE(24), text: slot.toString('utf8', headBytes, lengthBytes) };
}

/** The digest of all but itself. Each format has it at the same place. */
function digestOf(slot: Buffer, lengthBytes: number): Buffer {
  return createHash('sha256').update(slot.subarray(0, digestAt)).update(slot.subarray(headBytes, lengthBytes)).digest();
}
