import { DataLoss } from '../volume/errors.ts';
import {
  checksumSeedOf,
  copiesOf,
  firstSuperblockOffset,
  isSuperblock,
  superblockBytes,
  traitsOf,
  withUuid,
} from './ext4-superblock.ts';
import type { FilesystemImage, Piece, Renewal } from './renewal.ts';

/**
 * kept: it must keep the UUID it has. journal: its journal has to be replayed first, as it may bring the old superblock
 * back. program: more would have to be written than superblocks.
 */
export type Ext4Obstacle = 'kept' | 'journal' | 'program';

/** Finds how an ext4 gets another UUID, if that is in its superblocks alone. */
export async function ext4Renewal({ path, read, sizeBytes }: FilesystemImage): Promise<Renewal | Ext4Obstacle> {
  const first = await read(firstSuperblockOffset, superblockBytes);
  if (!isSuperblock(first, 0)) {
    throw new DataLoss(`the ext4 in ${path}, just cloned, has a superblock that is damaged: check its source.`);
  }
  const { hasGroupChecksums, keepsUuid, needsRecovery } = traitsOf(first);
  if (keepsUuid) return 'kept';
  if (needsRecovery) return 'journal';
  if (hasGroupChecksums) return 'program';
  const seed = checksumSeedOf(first);
  const copies = await Promise.all(
    copiesOf(first).map(async ({ group, offsetBytes }): Promise<Piece[]> => {
      if (offsetBytes + BigInt(superblockBytes) > sizeBytes) return [];
      const bytes = await read(offsetBytes, superblockBytes);
      // The kernel asks for the first only. A copy that is not sound is left as it is, for e2fsck(8).
      return isSuperblock(bytes, group) ? [{ offsetBytes, bytes }] : [];
    }),
  );
  const superblocks = [{ offsetBytes: firstSuperblockOffset, bytes: first }, ...copies.flat()];
  return (uuid) => superblocks.map(({ bytes, offsetBytes }) => ({ offsetBytes, bytes: withUuid(bytes, uuid, seed) }));
}
