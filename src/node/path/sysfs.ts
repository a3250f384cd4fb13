import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import type { DeviceNumber } from '../../kernel/device.ts';
import { readSysfs } from '../../kernel/file/sysfs.ts';

/** True if a block device refuses writes; false if there is no such device (Documentation/ABI/stable/sysfs-block). */
export async function isReadonlyDevice(queue: DiskQueue, { major, minor }: DeviceNumber): Promise<boolean> {
  return (await readSysfs(queue, `/sys/dev/block/${major}:${minor}/ro`)) === '1';
}
