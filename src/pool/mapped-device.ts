import { constants } from 'node:fs';
import { stat } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { DeviceMapper, type MappedState } from '../kernel/block/device-mapper.ts';
import { type Descriptor, openFile } from '../kernel/call/descriptor.ts';
import type { DiskQueue } from '../kernel/call/disk-queue.ts';
import { isErrno } from '../kernel/call/errno.ts';
import { explain } from '../kernel/call/explain.ts';
import { type DeviceNumber, deviceNumber, sameDevice } from '../kernel/device.ts';
import { FailedPrecondition } from '../volume/errors.ts';
import { type Finding, fail, ok } from './sight.ts';

/* For kinds of pools whose volumes are devices of device-mapper. */

/** @param user for messages: `pool fast`. @throws FailedPrecondition if this node has no device-mapper */
export async function openMapper(queue: DiskQueue, user: string): Promise<DeviceMapper> {
  try {
    return await DeviceMapper.open(queue);
  } catch (error) {
    if (!isErrno(error, 'ENOENT', 'ENODEV', 'ENXIO')) throw error;
    throw new FailedPrecondition(
      `${user}: /dev/mapper/control cannot be opened: load the module (modprobe dm_mod); in a container, mount the host's /dev.`,
    );
  }
}

/** Checks that device-mapper is there, for `holdfast doctor`. */
export async function checkMapper(queue: DiskQueue): Promise<Finding> {
  try {
    await DeviceMapper.open(queue);
    return ok('device-mapper', '/dev/mapper/control');
  } catch (error) {
    const remedy =
      "Load the module (modprobe dm_mod). In Kubernetes the container is privileged and has the host's /dev.";
    return fail('device-mapper', explain(error), remedy);
  }
}

/** Opens a device by the kernel's own name, such as /dev/dm-3. @throws FailedPrecondition if the node's devices are not seen */
async function openMappedNode(queue: DiskQueue, devicePath: string, flags: number): Promise<Descriptor> {
  try {
    return await openFile(queue, devicePath, flags | constants.O_NONBLOCK);
  } catch (error) {
    if (!isErrno(error, 'ENOENT')) throw error;
    throw new FailedPrecondition(
      `There is no ${devicePath}: this driver does not see the devices of the node. Mount the host's /dev in its container.`,
    );
  }
}

/**
 * Opens the device of device-mapper that was found, by its number. That is given to another one as soon as its own is gone: so
 * the opened device is compared with the kernel's answer after that. As long as it is open it stays.
 * @param numberNow the number that the wanted one has, asked by name or UUID
 * @returns undefined if it is gone, or was: the caller looks for it again
 */
export async function openStill(
  queue: DiskQueue,
  { device, devicePath }: { readonly device: DeviceNumber; readonly devicePath: string },
  numberNow: () => Promise<DeviceNumber | undefined>,
  flags: number = constants.O_RDONLY,
): Promise<Descriptor | undefined> {
  let descriptor: Descriptor;
  try {
    descriptor = await openMappedNode(queue, devicePath, flags);
  } catch (error) {
    if (isErrno(error, 'ENXIO', 'ENODEV') || !sameDevice(await numberNow(), device)) return undefined;
    throw error;
  }
  try {
    const { rdev } = await queue.run(() => descriptor.during((path) => stat(path, { bigint: true })));
    if (sameDevice(deviceNumber(rdev), device) && sameDevice(await numberNow(), device)) return descriptor;
    await descriptor[Symbol.asyncDispose]();
    return undefined;
  } catch (error) {
    await descriptor[Symbol.asyncDispose]();
    throw error;
  }
}

/** Four seconds in all: a look at a device takes milliseconds, unless the machine is busy. */
export const settlePausesMs: readonly number[] = [1, 2, 4, 8, 16, 32, 64, ...Array.from({ length: 30 }, () => 128)];

/**
 * Opens a device that may go, or never come, between being found and being opened: found again a bounded number of times.
 * @returns undefined if each time it was gone
 */
export async function openAgain<T>(
  open: () => Promise<T | undefined>,
  pausesMs: readonly number[] = settlePausesMs,
): Promise<T | undefined> {
  for (const pauseMs of [...pausesMs, undefined]) {
    const opened = await open();
    if (opened !== undefined) return opened;
    if (pauseMs !== undefined) await delay(pauseMs);
  }
  return undefined;
}

/**
 * True if another program than the caller has a device open, also not exclusively, and longer than udev does for a new
 * device.
 * @param find what the kernel says of it
 */
export async function isOpenElsewhere(find: () => MappedState | undefined): Promise<boolean> {
  for (const pauseMs of [1, 10, 100, 1000, undefined]) {
    if ((find()?.openCount ?? 0) <= 1) return false;
    if (pauseMs !== undefined) await delay(pauseMs);
  }
  return true;
}
