import { readlink } from 'node:fs/promises';
import { basename } from 'node:path';
import type { DiskQueue } from '../call/disk-queue.ts';
import type { DeviceNumber } from './device.ts';

/** Where the node of a device is, by the kernel's own name: other names are links of udev's, which come late or not at all. */
export async function devicePathOf(queue: DiskQueue, { major, minor }: DeviceNumber): Promise<string> {
  const link = await queue.run(() => readlink(`/sys/dev/block/${major}:${minor}`));
  // sysfs has this for a slash (Documentation/filesystems/sysfs.rst).
  return `/dev/${basename(link).replaceAll('!', '/')}`;
}
