import { type FileHandle, open } from 'node:fs/promises';
import {
  areOfOneFilesystem,
  completedSuperblock,
  copiesOf,
  firstSuperblockOffset,
  isSuperblock,
  superblockBytes,
} from './ext4-superblock.ts';

/**
 * Completes a superblock of which a disk wrote one sector, and not the other, as its power went. A copy that is sound must
 * agree with it.
 * @returns false if it is not that: nothing was changed
 */
export async function completeSuperblock(path: string): Promise<boolean> {
  await using file = await open(path, 'r+');
  const completed = completedSuperblock(await read(file, firstSuperblockOffset));
  if (completed === undefined) return false;
  for (const { group, offsetBytes } of copiesOf(completed)) {
    const copy = await read(file, offsetBytes);
    if (isSuperblock(copy, group) && !areOfOneFilesystem(copy, completed)) return false;
  }
  await file.write(completed, 0, superblockBytes, Number(firstSuperblockOffset));
  await file.sync();
  return true;
}

/** Behind the end there are zeros. */
async function read(file: FileHandle, offsetBytes: bigint): Promise<Buffer> {
  const block = Buffer.alloc(superblockBytes);
  if (offsetBytes > BigInt(Number.MAX_SAFE_INTEGER)) return block;
  await file.read(block, 0, superblockBytes, Number(offsetBytes));
  return block;
}
