import { existsSync, readlinkSync } from 'node:fs';
import { readlink } from 'node:fs/promises';
import { basename } from 'node:path';
import type { DiskQueue } from '../call/disk-queue.ts';
import { ignoreMissing } from '../call/errno.ts';
import type { DeviceNumber } from '../device.ts';

/** The path of a device's node, by the kernel's name: other names are links of udev, which come late or not at all. */
export async function devicePathOf(queue: DiskQueue, { major, minor }: DeviceNumber): Promise<string> {
  const link = await queue.run(() => readlink(`/sys/dev/block/${major}:${minor}`));
  // sysfs replaces a slash with this (Documentation/filesystems/sysfs.rst).
  return `/dev/${basename(link).replaceAll('!', '/')}`;
}

/** The kernel's name of a device: `loop3`; undefined: it is gone. Sysfs lies in memory. */
export function kernelNameOf({ major, minor }: DeviceNumber): string | undefined {
  try {
    return basename(readlinkSync(`/sys/dev/block/${major}:${minor}`));
  } catch (error) {
    return ignoreMissing(error);
  }
}

/** Answers if the kernel has let go of a device. A filesystem on it stays mounted, and answers with errors. */
export function isDeviceGone({ major, minor }: DeviceNumber): boolean {
  return !existsSync(`/sys/dev/block/${major}:${minor}`);
}
