import { constants } from 'node:fs';
import { type Descriptor, openFile } from '../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { readAt, writeAt } from '../../kernel/file/file.ts';
import { statusOf } from '../../kernel/file/path.ts';
import { DataLoss } from '../../volume/errors.ts';
import {
  checksumSeedOf,
  copiesOf,
  firstSuperblockOffset,
  isSuperblock,
  superblockBytes,
  traitsOf,
  withUuid,
} from './ext4-superblock.ts';

/**
 * done: all its superblocks have the new UUID. kept: it must keep the one it has. journal: its journal has to be replayed
 * first, as it may bring the old superblock back. program: more would have to be written than superblocks.
 */
export type Ext4Outcome = 'done' | 'kept' | 'journal' | 'program';

/** Gives an ext4 in a private image another UUID, if that is in its superblocks alone. */
export async function newExt4Uuid(queue: DiskQueue, path: string, uuid: Buffer): Promise<Ext4Outcome> {
  await using image = await openFile(queue, path, constants.O_RDWR);
  const { sizeBytes } = await statusOf(queue, image);
  const first = await readSuperblock(queue, image, firstSuperblockOffset);
  if (!isSuperblock(first, 0)) {
    throw new DataLoss(`the ext4 in ${path}, just cloned, has a superblock that is damaged: check its source.`);
  }
  const { hasGroupChecksums, keepsUuid, needsRecovery } = traitsOf(first);
  if (keepsUuid) return 'kept';
  if (needsRecovery) return 'journal';
  if (hasGroupChecksums) return 'program';
  const seed = checksumSeedOf(first);
  await writeAt(queue, image, withUuid(first, uuid, seed), firstSuperblockOffset);
  await Promise.all(
    copiesOf(first).map(async ({ group, offsetBytes }) => {
      if (offsetBytes + BigInt(superblockBytes) > sizeBytes) return;
      const copy = await readSuperblock(queue, image, offsetBytes);
      // The kernel asks for the first only. A copy that is not sound is left as it is, for e2fsck(8).
      if (isSuperblock(copy, group)) await writeAt(queue, image, withUuid(copy, uuid, seed), offsetBytes);
    }),
  );
  return 'done';
}

function readSuperblock(queue: DiskQueue, image: Descriptor, offsetBytes: bigint): Promise<Buffer> {
  return readAt(queue, image, { offsetBytes: Number(offsetBytes), lengthBytes: superblockBytes });
}
