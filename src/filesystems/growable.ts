import { openReadOnly } from '../kernel/call/descriptor.ts';
import type { DiskQueue } from '../kernel/call/disk-queue.ts';
import { readAtMost } from '../kernel/file/file.ts';
import { FailedPrecondition, OutOfRange } from '../volume/errors.ts';
import type { FilesystemType } from '../volume/filesystem.ts';
import type { VolumeHandle } from '../volume/handle.ts';
import { canGrow, filesystemSize, superblockRange, whyOfFixedSize, whyTooLarge } from './superblock.ts';

export interface WantedGrowth {
  readonly fsType: FilesystemType;
  readonly id: VolumeHandle;
  readonly wantedBytes: bigint;
}

/**
 * Called before anything of a volume grows.
 * @param path a device, or a file with its bytes
 * @throws OutOfRange (NE09), FailedPrecondition (NE08) if its filesystem cannot grow as far as that
 */
export async function requireGrowable(
  queue: DiskQueue,
  path: string,
  { fsType, id, wantedBytes }: WantedGrowth,
): Promise<void> {
  await using device = await openReadOnly(queue, path);
  const superblock = await readAtMost(queue, device, superblockRange[fsType]);
  const size = filesystemSize(fsType, superblock);
  // A repetition: all has grown.
  if (size !== undefined && !canGrow(size, wantedBytes)) return;
  const tooLarge = whyTooLarge(fsType, superblock, wantedBytes);
  if (tooLarge !== undefined) throw new OutOfRange(`volume ${id}: ${tooLarge}. Copy its data to a larger one.`);
  const reason = whyOfFixedSize(fsType, superblock);
  if (reason === undefined) return;
  throw new FailedPrecondition(`volume ${id} keeps its size: ${reason}. Copy its data to another.`);
}
