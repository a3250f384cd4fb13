import { readFile } from 'node:fs/promises';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import type { DeviceNumber } from '../../../kernel/device.ts';
import type { GroupState } from './group/group-state.ts';

const usualBlockBytes = 512;

/** The largest of its disks' logical block sizes: a volume may come to lie on any of them. */
export async function blockSizeOf(queue: DiskQueue, { physicalVolumes }: GroupState): Promise<number> {
  const sizes = physicalVolumes.map(({ device }) => (device === undefined ? usualBlockBytes : readSize(queue, device)));
  return Math.max(usualBlockBytes, ...(await Promise.all(sizes)));
}

/** A partition has no `queue` directory. */
async function readSize(queue: DiskQueue, { major, minor }: DeviceNumber): Promise<number> {
  for (const directory of ['queue', '../queue']) {
    const path = `/sys/dev/block/${major}:${minor}/${directory}/logical_block_size`;
    const text = await queue.run(() => readFile(path, 'utf8')).catch(() => '');
    if (/^[0-9]+\n?$/.test(text)) return Number(text);
  }
  return usualBlockBytes;
}
