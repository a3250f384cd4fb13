import { constants } from 'node:fs';
import { openFile } from '../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { readAt, writeAt } from '../../kernel/file/file.ts';
import { statusOf } from '../../kernel/file/path.ts';
import { DataLoss } from '../../volume/errors.ts';
import { hasLog, isSuperblock, superblockBytes, superblockOffsets, withUuid } from './btrfs-superblock.ts';

/**
 * Gives a btrfs in a private image another UUID. Not by btrfstune(8): that writes a new generation and leaves the log of
 * an old one behind, which nobody can replay then. Nor can the log always be replayed before: a kernel before Linux 6.7
 * mounts no filesystem whose UUID another one has that is mounted, as the source may be.
 * @returns whether there is a log to be replayed
 */
export async function newBtrfsUuid(queue: DiskQueue, path: string, uuid: Buffer): Promise<boolean> {
  await using image = await openFile(queue, path, constants.O_RDWR);
  const { sizeBytes } = await statusOf(queue, image);
  let withLog: boolean | undefined;
  for (const offsetBytes of superblockOffsets) {
    if (offsetBytes + BigInt(superblockBytes) > sizeBytes) break;
    const block = await readAt(queue, image, { offsetBytes: Number(offsetBytes), lengthBytes: superblockBytes });
    // What is not sound is left as it is. The kernel asks for the first only, and writes the others anew.
    if (isSuperblock(block, offsetBytes)) {
      await writeAt(queue, image, withUuid(block, uuid), offsetBytes);
      withLog ??= hasLog(block);
    } else if (offsetBytes === superblockOffsets[0]) {
      throw new DataLoss(`the btrfs in ${path}, just cloned, has a superblock that is damaged: check its source.`);
    }
  }
  return withLog ?? false;
}
