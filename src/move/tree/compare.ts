import { constants } from 'node:fs';
import { type Descriptor, openFile } from '../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { openPastCache } from '../../kernel/file/direct.ts';
import { dropCached, readFully, readInto } from '../../kernel/file/file.ts';
import { DataLoss } from '../../volume/errors.ts';
import { shortPath } from '../../volume/short-path.ts';
import { roundUp } from '../../volume/size.ts';
import { blockBytes } from '../copy.ts';
import type { PieceMemory } from '../piece-memory.ts';
import { dataDigest } from './digest.ts';
import type { DataRange } from './records.ts';

/** A file, and the ranges of it that were written. */
export interface Written {
  readonly file: Descriptor;
  readonly ranges: (DataRange & { readonly digest: Buffer })[];
}

/** @throws DataLoss if the disk has other bytes than were written */
export async function compareFile(queue: DiskQueue, { file, ranges }: Written, memory: PieceMemory): Promise<void> {
  if (ranges.length === 0) return;
  const flags = constants.O_RDONLY | constants.O_NOATIME;
  await dropCached(queue, file);
  const direct = await openPastCache(queue, file, flags);
  await using again = direct ?? (await openFile(queue, file, flags));
  for (const { digest, lengthBytes, offsetBytes } of ranges) {
    // Direct reads are of whole blocks.
    const length = direct !== undefined ? Number(roundUp(BigInt(lengthBytes), blockBytes)) : lengthBytes;
    const slot = await memory.take();
    const into = slot.memory.subarray(0, length);
    // One direct call reads all of it; the next one would not begin at a whole block, if the file ends in it.
    const found = await (direct !== undefined ? readInto : readFully)(queue, again, into, offsetBytes);
    const read = into.subarray(0, Math.min(found, lengthBytes));
    const isSame = (await dataDigest(read)).equals(digest);
    slot.free();
    if (isSame) continue;
    throw new DataLoss(
      `The file ${shortPath(file.path)} has other bytes at ${offsetBytes} than were written: the disk of the pool that receives the volume is sick. Nothing was moved.`,
    );
  }
}
