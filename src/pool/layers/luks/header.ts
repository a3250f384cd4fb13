import type { Descriptor } from '../../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { openDirect, readDirect } from '../../../kernel/file/direct.ts';
import { readAtMost, syncFile, writeAt } from '../../../kernel/file/file.ts';
import { luksHeaderBytes } from '../../../volume/encryption.ts';

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

/** The header's label, which is the name of its key; undefined: there is no header. */
export async function labelOf(queue: DiskQueue, device: Descriptor): Promise<string | undefined> {
  return labelIn(await readAtMost(queue, device, { offsetBytes: 0, lengthBytes: 512 }));
}

/** The two copies of what a header says of itself; its keys lie behind them. */
export const bothCopiesBytes = 2 * secondCopyBytes;

/** The label in the first copy of the header, or else in the second; undefined: there is neither. */
export function labelIn(start: Buffer): string | undefined {
  const copy = [start, start.subarray(secondCopyBytes)].find((each, index) => {
    const own = index === 0 ? magic : secondMagic;
    return each.subarray(0, own.length).equals(own);
  });
  if (copy === undefined) return undefined;
  // The first version has no label, and something else in its place.
  if (copy.readUInt16BE(versionAt) !== 2) return '';
  const text = copy.subarray(label.offsetBytes, label.offsetBytes + label.lengthBytes).toString('latin1');
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
  const first = await readAtMost(queue, data, { offsetBytes: 0, lengthBytes: magic.length });
  if (first.equals(magic)) return true;
  const second = await readAtMost(queue, data, { offsetBytes: secondCopyBytes, lengthBytes: secondMagic.length });
  return second.equals(secondMagic);
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
