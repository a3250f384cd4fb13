import { existsSync, readFileSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import type { DiskQueue } from '../call/disk-queue.ts';
import { type DeviceNumber, loopMajor } from '../device.ts';

/* Loop devices in sysfs. It lies in memory: no device is opened, and no file behind one is read. */

/**
 * The files behind this node's loop devices, by the devices' numbers. A path is as the kernel shows it in sysfs,
 * followed by ` (deleted)` if the file has no name any more. No device is opened.
 */
export async function loopBackingPaths(queue: DiskQueue): Promise<ReadonlyMap<number, string>> {
  const names = await queue.run(() => readdir('/sys/block'));
  const numbers = names.flatMap((name) => /^loop([0-9]+)$/.exec(name)?.[1] ?? []).map(Number);
  const paths = new Map<number, string>();
  for (const number of numbers.sort((a, b) => a - b)) {
    // Most devices have none, and this check is faster than an error.
    const path = isAttached(number) ? backingPath(number) : undefined;
    if (path !== undefined) paths.set(number, path);
  }
  return paths;
}

/** The file behind a loop device, as sysfs shows it. Neither the device nor the file is opened. */
export function loopBackingPath(device: DeviceNumber): string | undefined {
  const number = loopNumber(device);
  return number === undefined ? undefined : backingPath(number);
}

/** Facts about a loop device that only sysfs has. */
export interface LoopSight {
  readonly device: DeviceNumber;
  readonly devicePath: string;
  readonly readonly: boolean;
  /** The kernel detaches it with its last user. */
  readonly autoclear: boolean;
}

/** The loop devices over matching paths. None is opened: the filesystem of its file may be dead. */
export async function findLoops(queue: DiskQueue, isWanted: (backingPath: string) => boolean): Promise<LoopSight[]> {
  const wanted = Array.from(await loopBackingPaths(queue)).filter(([, path]) => isWanted(path));
  return wanted.map(([number]) => loopSight(number));
}

/** The facts about an attached device by its number. */
export function loopSight(number: number): LoopSight {
  return {
    device: loopDevice(number),
    devicePath: loopPath(number),
    readonly: isSet(number, 'ro'),
    autoclear: isSet(number, 'loop/autoclear'),
  };
}

/**
 * The number of the loop device with this device number; undefined for other devices, and for a loop device's
 * partition.
 */
export function loopNumber(device: DeviceNumber): number | undefined {
  const number = device.minor >> minorShift();
  return device.major === loopMajor && number << minorShift() === device.minor ? number : undefined;
}

/** The device number of a whole loop device. */
export function loopDevice(number: number): DeviceNumber {
  return { major: loopMajor, minor: number << minorShift() };
}

/**
 * A number that changes each time that a file is attached or detached. The kernel never gives the same one twice
 * (Documentation/ABI/testing/sysfs-block, diskseq). sysfs lies in memory. undefined before Linux 5.15.
 */
export function diskSequence(number: number): string | undefined {
  try {
    return readFileSync(`/sys/block/loop${number}/diskseq`, 'utf8');
  } catch {
    return undefined;
  }
}

/** The directory `loop` is there only while a file is attached; sysfs lies in memory. */
export function isAttached(number: number): boolean {
  return existsSync(`/sys/block/loop${number}/loop`);
}

/** undefined if no file is attached. */
function backingPath(number: number): string | undefined {
  try {
    return readFileSync(`/sys/block/loop${number}/loop/backing_file`, 'utf8').trimEnd();
  } catch {
    return undefined;
  }
}

function isSet(number: number, attribute: 'ro' | 'loop/autoclear'): boolean {
  try {
    return readFileSync(`/sys/block/loop${number}/${attribute}`, 'ascii').trim() === '1';
  } catch {
    return false;
  }
}

/** The path of the device's node. */
export function loopPath(number: number): string {
  return `/dev/loop${number}`;
}

let knownMinorShift: number | undefined;

/** With loop.max_part set, the kernel leaves room for partitions between the minor numbers (drivers/block/loop.c). */
function minorShift(): number {
  knownMinorShift ??= readMinorShift();
  return knownMinorShift;
}

function readMinorShift(): number {
  const parameter = '/sys/module/loop/parameters/max_part';
  const maximumPartitions = existsSync(parameter) ? Number(readFileSync(parameter, 'ascii')) : 0;
  return maximumPartitions > 0 ? 32 - Math.clz32(maximumPartitions) : 0;
}
