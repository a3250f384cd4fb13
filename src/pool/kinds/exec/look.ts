import { constants } from 'node:fs';
import { isHeldExclusively, sequenceOfDevice } from '../../../kernel/block/block.ts';
import type { Descriptor } from '../../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { isErrno } from '../../../kernel/call/errno.ts';
import { type DeviceNumber, sameDevice } from '../../../kernel/device.ts';
import { statusBehind } from '../../../kernel/file/path.ts';
import { type Mount, mountAt as uppermostAt } from '../../../kernel/mount/mount-table.ts';
import { HoldfastError } from '../../../volume/errors.ts';
import { locateDevice, openDisk } from '../../location/disk/found-disk.ts';
import { isSameDevice, type NotedDevice, type NotedMount } from './notes.ts';

/* Claims of programs are never believed: the kernel tells the mounts and devices that there are. */

/** The uppermost mount at a path. */
export async function mountAt(queue: DiskQueue, path: string): Promise<NotedMount | undefined> {
  const found = await uppermostAt(queue, path);
  return found && { device: found.device, fsType: found.fsType, root: found.root, source: found.source };
}

/** A block device, by its own name, open for reading; undefined: there is none at that path. */
export async function openDevice(
  queue: DiskQueue,
  path: string,
): Promise<{ readonly noted: NotedDevice; readonly descriptor: Descriptor } | undefined> {
  const number = await numberAt(queue, path);
  if (number === undefined) return undefined;
  try {
    const disk = await locateDevice(queue, path, number);
    const { descriptor } = await openDisk(queue, disk, constants.O_RDONLY);
    const sequence = sequenceOfDevice(descriptor)?.toString();
    return { noted: { ...number, path: disk.devicePath, sequence }, descriptor };
  } catch (error) {
    if (error instanceof HoldfastError || isErrno(error, 'ENOENT', 'ENXIO', 'ENODEV', 'ENOMEDIUM')) return undefined;
    throw error;
  }
}

/** Answers if the device of a note is still the one that was attached then, and not another one with its number. */
export async function isStillAttached(queue: DiskQueue, device: NotedDevice): Promise<boolean> {
  const found = await openDevice(queue, device.path);
  await found?.descriptor[Symbol.asyncDispose]();
  return found !== undefined && isSameDevice(found.noted, device);
}

/** Answers if a program or the kernel has the device for itself, e.g. mounted. */
export async function isHeld(queue: DiskQueue, { path }: NotedDevice): Promise<boolean> {
  return isHeldExclusively(queue, path);
}

/** Answers if a mount is the one of a note, or shows something in it. */
export function showsMount(noted: NotedMount, mount: Pick<Mount, 'device' | 'fsType' | 'root' | 'source'>) {
  if (!sameDevice(noted.device, mount.device) || noted.fsType !== mount.fsType) return undefined;
  // Filesystems without a device may share a number.
  if (noted.device.major === 0 && noted.source !== mount.source) return undefined;
  if (mount.root === noted.root) return 'whole';
  return mount.root.startsWith(noted.root === '/' ? '/' : `${noted.root}/`) ? 'part' : undefined;
}

async function numberAt(queue: DiskQueue, path: string): Promise<DeviceNumber | undefined> {
  if (!path.startsWith('/') || path.includes('\0')) return undefined;
  try {
    return (await statusBehind(queue, path)).represents;
  } catch (error) {
    if (isErrno(error, 'ENOENT', 'ENOTDIR', 'ELOOP', 'ENAMETOOLONG')) return undefined;
    throw error;
  }
}
