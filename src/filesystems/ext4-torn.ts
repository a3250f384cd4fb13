import { type FileHandle, open } from 'node:fs/promises';
import { completeExt4, type Ext4Copy, repairExt4 } from '../command/fsck.ts';
import type { DiskQueue } from '../kernel/call/disk-queue.ts';
import {
  areOfOneFilesystem,
  blockBytesOf,
  completedSuperblock,
  copiesOf,
  firstSuperblockOffset,
  isSuperblock,
  superblockBytes,
} from './ext4-superblock.ts';

/** Source for the repair of a superblock that e2fsck(8) does not find. */
type Remedy = { readonly copy: Ext4Copy } | { readonly completed: Buffer };

/**
 * Repairs an ext4 of which a disk wrote one sector of the superblock, and not the other, as its power went. e2fsck(8) looks
 * for copies only where filesystems of the usual geometry have them, and small ones have others, or none. It may change
 * anything: it is for clones.
 * @returns false if it is not that: nothing was changed
 * @throws CommandError if more is wrong
 */
export async function repairTornExt4(programs: DiskQueue, path: string): Promise<boolean> {
  const remedy = await programs.run(() => findRemedy(path));
  if (remedy === undefined) return false;
  if ('copy' in remedy) {
    await programs.run(() => repairExt4(path, remedy.copy));
    return true;
  }
  await programs.run(async () => {
    await using file = await open(path, 'r+');
    await file.write(remedy.completed, 0, superblockBytes, Number(firstSuperblockOffset));
    await file.sync();
  });
  // With nothing to compare it with, only what needs no decisions is mended.
  await programs.run(() => completeExt4(path));
  return true;
}

/** A copy that is sound, and says the same; where there is none, the superblock with the checksum of what it says. */
async function findRemedy(path: string): Promise<Remedy | undefined> {
  await using file = await open(path, 'r');
  const completed = completedSuperblock(await read(file, firstSuperblockOffset));
  if (completed === undefined) return undefined;
  const blockBytes = blockBytesOf(completed);
  for (const { group, offsetBytes } of copiesOf(completed)) {
    const copy = await read(file, offsetBytes);
    if (!isSuperblock(copy, group)) continue;
    const block = offsetBytes / blockBytes;
    return areOfOneFilesystem(copy, completed) ? { copy: { block, blockBytes } } : undefined;
  }
  return { completed };
}

/** Behind the end there are zeros. */
async function read(file: FileHandle, offsetBytes: bigint): Promise<Buffer> {
  const block = Buffer.alloc(superblockBytes);
  if (offsetBytes > BigInt(Number.MAX_SAFE_INTEGER)) return block;
  await file.read(block, 0, superblockBytes, Number(offsetBytes));
  return block;
}
