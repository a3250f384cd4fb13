import { randomBytes } from 'node:crypto';
import { unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { attachLoop, loopStatus } from '../../../kernel/block/loop.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { resizeFile } from '../../../kernel/file/file.ts';
import { writeNewFile } from '../../records/durable-file.ts';

/**
 * The smallest logical block size with which a loop device over a file in this directory does direct I/O: 512 bytes
 * on most disks, 4096 where the disk has 4096-byte sectors. Tried on a file of no use, since neither the filesystem's
 * name nor its block size tells.
 */
export async function findBlockSizeBytes(queue: DiskQueue, directory: string): Promise<512 | 4096> {
  const path = join(directory, 'tmp', `block-size.${randomBytes(6).toString('hex')}`);
  await writeNewFile(queue, path, '');
  try {
    await resizeFile(queue, path, 1n << 20n);
    if (await doesDirectIo(queue, path, 512)) return 512;
    // Where no size allows direct I/O, 512 suits the most applications.
    return (await doesDirectIo(queue, path, 4096)) ? 4096 : 512;
  } finally {
    await queue.run(() => unlink(path));
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
