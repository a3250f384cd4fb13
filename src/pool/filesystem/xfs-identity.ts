import { constants } from 'node:fs';
import { openFile } from '../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { readAt, writeAt } from '../../kernel/file/file.ts';
import { DataLoss } from '../../volume/errors.ts';
import * as log from './xfs-log.ts';
import { geometryOf, isSuperblock, isXfs, largestSectorBytes, withUuid } from './xfs-superblock.ts';

/** done: it has the new UUID. log: its log has to be replayed first. program: it is of an old format, without checksums. */
export type XfsOutcome = 'done' | 'log' | 'program';

/** Gives an XFS in a private image another UUID: in the superblocks, and in the record that its log ends with. */
export async function newXfsUuid(queue: DiskQueue, path: string, uuid: Buffer): Promise<XfsOutcome> {
  await using image = await openFile(queue, path, constants.O_RDWR);
  const read = (offsetBytes: bigint, lengthBytes: number) =>
    readAt(queue, image, { offsetBytes: Number(offsetBytes), lengthBytes });
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
  const { bytes, firstBlock } = log.withUuid(record, uuid);
  await Promise.all([
    writeAt(queue, image, bytes.subarray(0, log.logBlockBytes), logOffset(firstBlock)),
    ...superblockOffsets.map(async (offsetBytes) => {
      const sector = await read(offsetBytes, sectorBytes);
      // Of the others the kernel knows only that they are there. One that is not sound is left for xfs_repair(8).
      if (isSuperblock(sector)) await writeAt(queue, image, withUuid(sector, uuid), offsetBytes);
    }),
  ]);
  return 'done';
}
