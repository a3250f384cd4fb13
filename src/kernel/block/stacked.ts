import { existsSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { basename, dirname } from 'node:path';
import type { DiskQueue } from '../call/disk-queue.ts';
import { ignoreMissing } from '../call/errno.ts';
import type { DeviceNumber } from '../device.ts';
import { readSysfs, sysfsNames, sysfsTarget } from '../file/sysfs.ts';

/** A block device of a volume. */
export interface SoughtDevice {
  readonly device: DeviceNumber;
  readonly devicePath: string;
}

/** A block device that is built on another one. */
export interface StackedDevice {
  readonly path: string;
  /** The name in device-mapper, if it has one. */
  readonly name?: string;
}

/**
 * Block devices that are built on these devices (device-mapper and RAID: Documentation/ABI/stable/sysfs-block,
 * holders), and loop devices over one of them or over a file below one of the directories. Opens none of them.
 */
export async function stackedDevices(
  queue: DiskQueue,
  devices: readonly SoughtDevice[],
  directories: Iterable<string>,
): Promise<StackedDevice[]> {
  const names = devices.map(({ devicePath }) => basename(devicePath));
  const holders = await Promise.all(names.map((name) => entries(queue, `/sys/block/${name}/holders`)));
  const isOver = (file: string) =>
    devices.some(({ devicePath }) => file === devicePath) ||
    [...directories].some((directory) => file.startsWith(`${directory}/`));
  const loops = (await entries(queue, '/sys/block')).filter((name) => /^loop[0-9]+$/.test(name));
  const backing = await Promise.all(
    loops.map((name) => readSysfs(queue, `/sys/block/${name}/loop/backing_file`, 'utf8')),
  );
  const overFiles = loops.filter((_, index) => isOver(backing[index] ?? ''));
  return Promise.all([...new Set([...holders.flat(), ...overFiles])].map((name) => describeDevice(queue, name)));
}

async function describeDevice(queue: DiskQueue, kernelName: string): Promise<StackedDevice> {
  const text = await readSysfs(queue, `/sys/block/${kernelName}/dm/name`, 'utf8');
  return { path: `/dev/${kernelName}`, ...(text !== undefined && { name: text }) };
}

async function entries(queue: DiskQueue, directory: string): Promise<string[]> {
  return (await queue.run(() => readdir(directory)).catch(ignoreMissing)) ?? [];
}

/** A block device, and the devices built on it. */
export interface Stack {
  /** The kernel's name: `dm-0`, `loop3`. */
  readonly kernelName: string;
  /** The name in device-mapper. */
  readonly name: string | undefined;
  /** For a loop device: its file. */
  readonly backingFile: string | undefined;
  /** The kernel's names of the devices built on it. */
  readonly holders: readonly string[];
}

/** All block devices but partitions, as sysfs has them. Opens none of them. */
export async function listStacks(queue: DiskQueue): Promise<Stack[]> {
  const kernelNames = await entries(queue, '/sys/block');
  return Promise.all(
    kernelNames.map(async (kernelName) => ({
      kernelName,
      name: await readSysfs(queue, `/sys/block/${kernelName}/dm/name`, 'utf8'),
      backingFile: await readSysfs(queue, `/sys/block/${kernelName}/loop/backing_file`, 'utf8'),
      holders: await entries(queue, `/sys/block/${kernelName}/holders`),
    })),
  );
}

/**
 * The names of the disks that a device finally lies on: for a partition its disk, for device-mapper and MD all below.
 * Read from sysfs, which lies in memory. A device that sysfs does not have counts as a disk.
 */
export function wholeDisksOf({ major, minor }: DeviceNumber): string[] {
  const place = sysfsTarget(`/sys/dev/block/${major}:${minor}`);
  return place === undefined ? [`${major}:${minor}`] : [...new Set(disksAt(place))];
}

function disksAt(place: string): string[] {
  const whole = existsSync(`${place}/partition`) ? dirname(place) : place;
  const below = sysfsNames(`${whole}/slaves`).flatMap((name) => sysfsTarget(`/sys/class/block/${name}`) ?? []);
  return below.length === 0 ? [basename(whole)] : below.flatMap(disksAt);
}
