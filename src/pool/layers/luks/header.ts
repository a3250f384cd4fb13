import type { Descriptor } from '../../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { openDirect, readDirect } from '../../../kernel/file/direct.ts';
import { readAtMost, syncFile, writeAt } from '../../../kernel/file/file.ts';
import { luksHeaderBytes } from '../../../volume/encryption.ts';
import { isZeros } from '../../location/content.ts';

/*
 * The header of LUKS2, as far as it is read here: the first of its two copies (LUKS2 On-Disk Format Specification, 2.1).
 * Only cryptsetup writes it.
 */

const magic = Buffer.from('LUKS\xba\xbe', 'latin1');
/** The magic of the second copy, wherever that lies. */
const secondMagic = Buffer.from('SKUL\xba\xbe', 'latin1');
const secondCopyBytes = 0x4000;
const versionAt = 6;
const label = { offsetBytes: 24, lengthBytes: 48 };
const uuid = { offsetBytes: 168, lengthBytes: 40 };
/** The binary part of a copy, before its JSON. */
const binaryBytes = 4096;
/** Its parts that are zeros: behind the offset of the header, and behind a checksum of SHA-256. */
const unused = [
  [264, 448],
  [480, binaryBytes],
] as const;
const openingBrace = 0x7b;

/** undefined: there is no header. */
export async function readNames(queue: DiskQueue, device: Descriptor): Promise<HeaderNames | undefined> {
  return namesIn(await readAtMost(queue, device, { offsetBytes: 0, lengthBytes: bothCopiesBytes }));
}

/** The two copies of what a header says of itself; its keys lie behind them. */
export const bothCopiesBytes = 2 * secondCopyBytes;

/** The words of a header about itself. */
export interface HeaderNames {
  readonly version: number;
  /** Empty: it has none, as always in the first version. */
  readonly label: string;
  readonly uuid: string;
}

/**
 * The names in the first copy of the header, or else in the second; undefined: there is neither. No checksum is looked at: what
 * follows from a label must be harmless.
 */
export function namesIn(start: Buffer): HeaderNames | undefined {
  const copy = copiesIn(start).find((each, index) => hasMagic(each, index));
  if (copy === undefined) return undefined;
  const version = copy.readUInt16BE(versionAt);
  // The first version has something else in the place of the label.
  return { version, label: version === 2 ? textIn(copy, label) : '', uuid: textIn(copy, uuid) };
}

/**
 * True if the start of a disk holds a header of the second version, or a part of one, and nothing else. A partition table lies in
 * bytes that a header leaves zeros, and filesystems write there, too.
 */
export function isHeaderAlone(start: Buffer): boolean {
  return copiesIn(start).every((copy, index) => {
    const binary = copy.subarray(0, binaryBytes);
    const isOwn = hasMagic(copy, index) && copy.readUInt16BE(versionAt) === 2;
    if (!isZeros(isOwn ? Buffer.concat(unused.map(([from, to]) => binary.subarray(from, to))) : binary)) return false;
    const json = copy.subarray(binaryBytes, secondCopyBytes);
    return json[0] === openingBrace || isZeros(json);
  });
}

function copiesIn(start: Buffer): readonly Buffer[] {
  return [start.subarray(0, secondCopyBytes), start.subarray(secondCopyBytes, bothCopiesBytes)];
}

function hasMagic(copy: Buffer, index: number): boolean {
  const own = index === 0 ? magic : secondMagic;
  return copy.subarray(0, own.length).equals(own);
}

function textIn(copy: Buffer, { lengthBytes, offsetBytes }: typeof label): string {
  const text = copy.subarray(offsetBytes, offsetBytes + lengthBytes).toString('latin1');
  return text.replace(/\0.*$/s, '');
}

const pieceBytes = 1 << 18;

/** Reads all of it, past the page cache, as cryptsetup does. @throws KernelError, or RangeError if it ends before */
export async function readHeader(queue: DiskQueue, devicePath: string): Promise<void> {
  await using device = await openDirect(queue, devicePath);
  for (let offsetBytes = 0; offsetBytes < luksHeaderBytes; offsetBytes += pieceBytes) {
    const piece = await readDirect(queue, device, { lengthBytes: pieceBytes, offsetBytes: BigInt(offsetBytes) });
    if (piece.length < pieceBytes) throw new RangeError(`${devicePath} ended at ${offsetBytes + piece.length}`);
  }
}

/** True if there is one, or the rest of one. */
export async function hasHeader(queue: DiskQueue, data: Descriptor): Promise<boolean> {
  const lengthBytes = secondCopyBytes + secondMagic.length;
  return copiesIn(await readAtMost(queue, data, { offsetBytes: 0, lengthBytes })).some(hasMagic);
}

/**
 * Overwrites the header and all its keys, durably: without them the data can never be read again. Zeros stay as they
 * are, so that they take no blocks.
 */
export async function eraseHeader(queue: DiskQueue, data: Descriptor, headerBytes: number): Promise<void> {
  // From the end, so that after an interruption the rest is still known as a header, and erased by the next try.
  for (let offsetBytes = headerBytes - pieceBytes; offsetBytes >= 0; offsetBytes -= pieceBytes) {
    const piece = await readAtMost(queue, data, { offsetBytes, lengthBytes: pieceBytes });
    if (piece.every((byte) => byte === 0)) continue;
    if (offsetBytes === 0) await syncFile(queue, data);
    await writeAt(queue, data, Buffer.alloc(piece.length), BigInt(offsetBytes));
  }
  await syncFile(queue, data);
}
