import { constants } from 'node:fs';
import koffi from 'koffi';
import { type Descriptor, type Openable, openFile } from '../call/descriptor.ts';
import type { DiskQueue } from '../call/disk-queue.ts';
import { isErrno } from '../call/errno.ts';
import { readInto } from './file.ts';

/** Alignment that suits any disk for the memory and the position of direct reads (open(2), O_DIRECT). */
const alignmentBytes = 4096;

/** Opens a file or device for reads past the page cache, whose copy may be old if others write past it. */
export function openDirect(queue: DiskQueue, file: Openable): Promise<Descriptor> {
  return openFile(queue, file, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_DIRECT);
}

/**
 * The same by any flags, for files too. A page cache may have bytes that the disk has not, and each copy into it or out of
 * it takes its time. @returns undefined on a filesystem without direct reads and writes
 */
export async function openPastCache(queue: DiskQueue, file: Openable, flags: number): Promise<Descriptor | undefined> {
  try {
    return await openFile(queue, file, flags | constants.O_DIRECT);
  } catch (error) {
    if (!isErrno(error, 'EINVAL')) throw error;
    return undefined;
  }
}

/** Memory for direct reads and writes. */
export function alignedMemory(lengthBytes: number): Buffer<ArrayBuffer> {
  const memory = Buffer.alloc(lengthBytes + alignmentBytes);
  const startsAt = Number(-koffi.address(memory) & BigInt(alignmentBytes - 1));
  return memory.subarray(startsAt, startsAt + lengthBytes);
}

/** Reads a range of a file that `openDirect` opened, in whole blocks; less than requested only at its end. */
export async function readDirect(
  queue: DiskQueue,
  file: Descriptor,
  { lengthBytes, offsetBytes }: { readonly lengthBytes: number; readonly offsetBytes: bigint },
): Promise<Buffer> {
  const aligned = alignedMemory(lengthBytes);
  return aligned.subarray(0, await readInto(queue, file, aligned, offsetBytes));
}
