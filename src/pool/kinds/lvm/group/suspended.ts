import { type DeviceMapper, findMapped, type MappedOver } from '../../../../kernel/block/device-mapper.ts';
import type { DiskQueue } from '../../../../kernel/call/disk-queue.ts';
import { mappedUuidPrefix } from '../names.ts';

/**
 * Devices of a volume group that are suspended: reads and writes wait. LVM suspends the volume that it changes, and the devices
 * below it. Those below others come first, in the order of resuming: the kernel resumes no thin volume before its pool.
 */
export async function findSuspended(queue: DiskQueue, mapper: DeviceMapper, groupUuid: string): Promise<MappedOver[]> {
  const prefix = mappedUuidPrefix(groupUuid);
  const all = (await findMapped(queue, () => true)).filter(({ uuid }) => uuid.startsWith(prefix));
  return lowestFirst(all).filter(({ device }) => mapper.find(device)?.isSuspended === true);
}

/**
 * Resumes devices that a killed command of LVM, or a killed driver, has left suspended. They keep their old table: one that LVM
 * has loaded may differ from the group's metadata.
 * @param left as `findSuspended` has them
 * @throws the first error, after all were tried
 */
export async function resumeLeft(queue: DiskQueue, mapper: DeviceMapper, left: readonly MappedOver[]): Promise<void> {
  const errors: unknown[] = [];
  const keep = (error: unknown) => void errors.push(error);
  for (const { device } of left) {
    // A thin pool counts a volume twice that has two tables, and must go on before one of them is forgotten.
    await mapper.clear(queue, device).catch(keep);
    await mapper.resume(queue, device).catch(keep);
  }
  if (errors.length > 0) throw errors[0];
}

/** @returns each after all that it is made of */
export function lowestFirst<T extends Pick<MappedOver, 'device' | 'backing'>>(all: readonly T[]): T[] {
  const key = ({ major, minor }: MappedOver['device']) => `${major}:${minor}`;
  const waiting = new Map(all.map((each) => [key(each.device), each]));
  const sorted: T[] = [];
  const take = (each: T) => {
    if (!waiting.delete(key(each.device))) return;
    for (const below of each.backing) {
      const found = waiting.get(key(below));
      if (found !== undefined) take(found);
    }
    sorted.push(each);
  };
  for (const each of all) take(each);
  return sorted;
}
