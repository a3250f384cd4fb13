import { constants } from 'node:fs';
import { type Descriptor, openFile } from '../../../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../../../kernel/call/disk-queue.ts';
import { openDirect, readDirect } from '../../../../kernel/file/direct.ts';
import { readAtMost, syncFile, writeAt } from '../../../../kernel/file/file.ts';
import { luksHeaderBytes } from '../../../../volume/encryption.ts';
import { bothCopiesBytes, type HeaderNames, namesIn } from '../header.ts';

/*
 * Nothing but a mark allows a disk to be formatted that has a header, and a mark is one block that cryptsetup knows nothing of. A
 * label in the header would not do: cryptsetup keeps two copies, writes them one after the other, and repairs one from the other
 * later, so a label that was taken back can return when the disk is long in use. A mark that was written over with zeros does not.
 * One lies where the data will be, for the time in which the whole header is written; the other behind the keys, where no later
 * work on the header comes, for the time in which the filesystem is made.
 */

export const markBytes = 4096;
export const markPlaces = { data: luksHeaderBytes, header: luksHeaderBytes - markBytes } as const;
export type MarkPlace = keyof typeof markPlaces;

const text = 'Holdfast makes the encryption of this disk. It was blank before, and nothing of it is in use.\n';
const claimPattern = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\n$/;
const uuidCharacters = 36;

/** @param claim the random name of the one work that makes it: another node writes another */
export function markOf(claim: string): Buffer {
  const mark = Buffer.alloc(markBytes);
  mark.write(`${text}${claim}\n`);
  return mark;
}

/** @returns the claim; undefined: it is no mark */
function claimIn(block: Buffer): string | undefined {
  const words = block.subarray(text.length, text.length + uuidCharacters + 1).toString('latin1');
  const claim = words.slice(0, uuidCharacters);
  return claimPattern.test(words) && markOf(claim).equals(block) ? claim : undefined;
}

/** The progress of a disk's encryption, by what lies on it. */
export interface Progress {
  /** The names in its header; undefined: it has none. */
  readonly names: HeaderNames | undefined;
  /** The claims of its marks; undefined: there is no such mark. */
  readonly data: string | undefined;
  readonly header: string | undefined;
}

/** Past the page cache: another node may have written since this one read. */
export async function readProgress(queue: DiskQueue, devicePath: string): Promise<Progress> {
  await using device = await openDirect(queue, devicePath);
  return await progressIn((lengthBytes, offsetBytes) =>
    readDirect(queue, device, { lengthBytes, offsetBytes: BigInt(offsetBytes) }),
  );
}

/** The same of an open device, whose cache was dropped. */
export async function progressOf(queue: DiskQueue, device: Descriptor): Promise<Progress> {
  return await progressIn((lengthBytes, offsetBytes) => readAtMost(queue, device, { lengthBytes, offsetBytes }));
}

async function progressIn(read: (lengthBytes: number, offsetBytes: number) => Promise<Buffer>): Promise<Progress> {
  const names = namesIn(await read(bothCopiesBytes, 0));
  const data = claimIn(await read(markBytes, markPlaces.data));
  return { names, data, header: claimIn(await read(markBytes, markPlaces.header)) };
}

/** Durable when it returns. @param claim undefined: zeros, so that there is no mark any more */
export async function writeMark(
  queue: DiskQueue,
  device: Descriptor,
  place: MarkPlace,
  claim: string | undefined,
): Promise<void> {
  const block = claim === undefined ? Buffer.alloc(markBytes) : markOf(claim);
  await writeAt(queue, device, block, BigInt(markPlaces[place]));
  await syncFile(queue, device);
}

/** For changes while a program may have the disk. */
export function openForMarks(queue: DiskQueue, devicePath: string): Promise<Descriptor> {
  return openFile(queue, devicePath, constants.O_RDWR | constants.O_NONBLOCK);
}
