import { readFile } from 'node:fs/promises';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { ignoreMissing } from '../../kernel/call/errno.ts';
import type { DeviceNumber } from '../../kernel/device.ts';

/** True if a block device refuses writes; false if there is no such device. */
export async function isReadonlyDevice(queue: DiskQueue, device: DeviceNumber): Promise<boolean> {
  return (await readAttribute(queue, device, 'ro')) === '1';
}

/** One of the attributes that sysfs has of a block device (Documentation/ABI/stable/sysfs-block). */
async function readAttribute(
  queue: DiskQueue,
  { major, minor }: DeviceNumber,
  name: string,
): Promise<string | undefined> {
  const path = `/sys/dev/block/${major}:${minor}/${name}`;
  return (await queue.run(() => readFile(path, 'utf8')).catch(ignoreMissing))?.trim();
}
