import { DataLoss } from '../volume/errors.ts';
import type { FilesystemImage, Piece, Renewal } from './renewal.ts';
import * as log from './xfs-log.ts';
import { geometryOf, isSuperblock, isXfs, largestSectorBytes, withUuid } from './xfs-superblock.ts';

/** log: its log has to be replayed first. program: it is of an old format, without checksums. */
export type XfsObstacle = 'log' | 'program';

/** Finds how an XFS gets another UUID: in the superblocks, and in the record that its log ends with. */
export async function xfsRenewal({ path, read }: FilesystemImage): Promise<Renewal | XfsObstacle> {
  const damaged = new DataLoss(`the XFS in ${path}, just cloned, has a superblock that is damaged: check its source.`);
  const first = await read(0n, largestSectorBytes);
  if (!isXfs(first)) throw damaged;
  const { log: place, sectorBytes, superblockOffsets, version } = geometryOf(first);
  if (version < 5 || place === undefined) return 'program';
  if (!isSuperblock(first.subarray(0, sectorBytes))) throw damaged;
  const logOffset = (block: number) => place.offsetBytes + BigInt(block * log.logBlockBytes);
  const record = await log.findUnmountRecord(
    (block, count) => read(logOffset(block), count * log.logBlockBytes),
    Number(place.lengthBytes) / log.logBlockBytes,
  );
  if (record === undefined) return 'log';
  const superblocks = await Promise.all(
    superblockOffsets.map(async (offsetBytes): Promise<Piece[]> => {
      const bytes = await read(offsetBytes, sectorBytes);
      // The kernel only checks that the others are there. A damaged one is left for xfs_repair(8).
      return isSuperblock(bytes) ? [{ offsetBytes, bytes }] : [];
    }),
  );
  return (uuid) => [
    // All that changes is in its first block.
    {
      offsetBytes: logOffset(record.firstBlock),
      bytes: log.withUuid(record, uuid).bytes.subarray(0, log.logBlockBytes),
    },
    ...superblocks.flat().map(({ bytes, offsetBytes }) => ({ offsetBytes, bytes: withUuid(bytes, uuid) })),
  ];
}
