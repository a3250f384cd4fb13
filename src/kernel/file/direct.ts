import { constants } from 'node:fs';
import koffi from 'koffi';
import { type Descriptor, type Openable, openFile } from '../call/descriptor.ts';
import type { DiskQueue } from '../call/disk-queue.ts';
import { readInto } from './file.ts';

/** As the memory and the place of what is read past the page cache must be, on any disk (open(2), O_DIRECT). */
const alignmentBytes = 4096;

/** Opens what somebody writes to past the page cache: what that has of it may be old. */
export function openDirect(queue: DiskQueue, file: Openable): Promise<Descriptor> {
  return openFile(queue, file, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_DIRECT);
}

/** Reads a range of what was opened so, in whole blocks; less than requested only at its end. */
export async function readDirect(
  queue: DiskQueue,
  file: Descriptor,
  { lengthBytes, offsetBytes }: { readonly lengthBytes: number; readonly offsetBytes: bigint },
): Promise<Buffer> {
  const memory = Buffer.alloc(lengthBytes + alignmentBytes);
  const startsAt = Number(-koffi.address(memory) & BigInt(alignmentBytes - 1));
  const aligned = memory.subarray(startsAt, startsAt + lengthBytes);
  return aligned.subarray(0, await readInto(queue, file, aligned, offsetBytes));
}
