import { randomBytes } from 'node:crypto';
import { unlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { chooseBlockSize } from '../../../command/mkfs-options.ts';
import { attachLoop, loopStatus } from '../../../kernel/block/loop.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { resizeFile } from '../../../kernel/file/file.ts';
import { reflinkIfPossible } from '../../location/reflink.ts';
import type { VolumeSpec } from '../../pool.ts';

/**
 * The logical block size of a new volume's device. Direct I/O needs one of 4096 bytes where the disk has such sectors,
 * and, from Linux 6.15 on, where the image shares blocks with another file of XFS. Without direct I/O a write that finds
 * too little room can be answered as if it had been done (docs/space.md). A filesystem does not mind large blocks, unless
 * its maker chose smaller ones. A program that uses a block volume may, so it has those of the pool.
 */
export function blockSizeOf(
  { content, mkfsArguments }: Pick<VolumeSpec, 'content' | 'mkfsArguments'>,
  poolBlockSizeBytes: number,
): number {
  if (content.type !== 'mount') return poolBlockSizeBytes;
  return chooseBlockSize(content.fsType, mkfsArguments) ? 512 : 4096;
}

/**
 * The smallest logical block size with which a loop device does direct I/O over a file in this directory that shares its
 * blocks, if files can do that there: 512 or 4096 bytes. Tried on files of no use, since neither the filesystem's name
 * nor its block size tells.
 */
export async function findBlockSizeBytes(queue: DiskQueue, directory: string): Promise<512 | 4096> {
  const path = join(directory, 'tmp', `block-size.${randomBytes(6).toString('hex')}`);
  const clone = `${path}-clone`;
  try {
    await queue.run(() => writeFile(path, Buffer.alloc(4096), { flag: 'wx', mode: 0o600 }));
    await reflinkIfPossible(queue, path, clone);
    await resizeFile(queue, path, 1n << 20n);
    if (await doesDirectIo(queue, path, 512)) return 512;
    // Where no size allows direct I/O, 512 suits the most applications.
    return (await doesDirectIo(queue, path, 4096)) ? 4096 : 512;
  } finally {
    for (const each of [clone, path]) await queue.run(() => unlink(each)).catch(() => undefined);
  }
}

async function doesDirectIo(queue: DiskQueue, backingPath: string, blockSizeBytes: number): Promise<boolean> {
  const label = 'holdfast block size';
  const loop = await attachLoop(queue, {
    backing: backingPath,
    label,
    readonly: false,
    autoclear: true,
    blockSizeBytes,
  });
  await using _hold = loop.descriptor;
  return (await loopStatus(queue, loop.number))?.directIo ?? false;
}
