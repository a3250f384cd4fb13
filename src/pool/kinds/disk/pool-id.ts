import { constants } from 'node:fs';
import { limitsOfDevice } from '../../../kernel/block/block.ts';
import type { Disk } from '../../../kernel/block/disks.ts';
import { openFile } from '../../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { readWhatCan } from '../../../kernel/file/file.ts';
import { readGpt } from './label/gpt.ts';
import { entriesBytes } from './label/layout.ts';

/** The pool that the beginning of a disk names; undefined: none. */
export async function poolIdOn(queue: DiskQueue, { devicePath }: Disk): Promise<string | undefined> {
  await using device = await openFile(queue, devicePath, constants.O_RDONLY | constants.O_NONBLOCK);
  const { sectorBytes, sizeBytes } = limitsOfDevice(device);
  const table = { lengthBytes: 2 * sectorBytes + Number(entriesBytes), offsetBytes: 0 };
  if (sizeBytes < BigInt(table.lengthBytes)) return undefined;
  const front = await readWhatCan(queue, device, table);
  return readGpt(front.subarray(sectorBytes, 2 * sectorBytes), front.subarray(2 * sectorBytes))?.poolId;
}
