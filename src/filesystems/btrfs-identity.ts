import { DataLoss } from '../volume/errors.ts';
import { hasLog, isSuperblock, superblockBytes, superblockOffsets, withUuid } from './btrfs-superblock.ts';
import type { FilesystemImage, Piece, Renewal } from './renewal.ts';

/**
 * Finds how a btrfs gets another UUID, and if it has a log to be replayed. btrfstune(8) writes a new generation and leaves
 * the log of an old one behind, which cannot be replayed then. Nor can the log always be replayed before: a kernel before
 * Linux 6.7 mounts no filesystem with the UUID of another one that is mounted, as the source may be.
 */
export async function inspectBtrfs(image: FilesystemImage): Promise<{ renewal: Renewal; needsReplay: boolean }> {
  const superblocks = await readSuperblocks(image);
  return {
    renewal: (uuid) => superblocks.map(({ bytes, offsetBytes }) => ({ offsetBytes, bytes: withUuid(bytes, uuid) })),
    needsReplay: superblocks.slice(0, 1).some(({ bytes }) => hasLog(bytes)),
  };
}

/** Renewal of a btrfs that is not in use. */
export async function btrfsRenewal(image: FilesystemImage): Promise<Renewal | 'log'> {
  const { needsReplay, renewal } = await inspectBtrfs(image);
  return needsReplay ? 'log' : renewal;
}

/** Reads those that are sound. A damaged copy is left alone: the kernel needs the first only, and writes the others again. */
async function readSuperblocks({ path, read, sizeBytes }: FilesystemImage): Promise<Piece[]> {
  const found: Piece[] = [];
  for (const offsetBytes of superblockOffsets) {
    if (offsetBytes + BigInt(superblockBytes) > sizeBytes) break;
    const bytes = await read(offsetBytes, superblockBytes);
    if (isSuperblock(bytes, offsetBytes)) found.push({ offsetBytes, bytes });
    else if (offsetBytes === superblockOffsets[0]) {
      throw new DataLoss(`the btrfs in ${path}, just cloned, has a superblock that is damaged: check its source.`);
    }
  }
  return found;
}
