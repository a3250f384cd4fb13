import { constants, readdirSync, readFileSync } from 'node:fs';
import { readdir, unlink } from 'node:fs/promises';
import { openFile } from '../call/descriptor.ts';
import type { DiskQueue } from '../call/disk-queue.ts';
import { ignoreMissing, isErrno } from '../call/errno.ts';
import { type IoctlRequest, ioctl } from '../call/ioctl.ts';
import type { DeviceNumber } from './device.ts';

/*
 * Devices of device-mapper, by what sysfs has of them, which lies in memory, and by their control device. Programs make
 * them, as that takes their tables; to look at them and to remove them takes none.
 */

/** A device of device-mapper. */
export interface MappedDevice {
  readonly device: DeviceNumber;
  /** By the kernel's own name: what is in /dev/mapper is for udev to make, which may not be there. */
  readonly devicePath: string;
  readonly name: string;
  /** The devices that it is made of, none of them opened; of one that is gone nothing is there. */
  readonly backing: readonly DeviceNumber[];
  readonly readonly: boolean;
}

/** Of a device at this moment. */
export interface MappedState {
  /** How often it is open; what is mounted counts as well. */
  readonly openCount: number;
  /** It goes with its last user. */
  readonly isGoing: boolean;
}

/** All whose name is wanted. */
export async function findMapped(queue: DiskQueue, isWanted: (name: string) => boolean): Promise<MappedDevice[]> {
  const names = (await queue.run(() => readdir('/sys/block'))).filter((name) => name.startsWith('dm-'));
  return names.flatMap((name) => lookAt(name, isWanted) ?? []);
}

/** Those that are made of a device. */
export async function mappedOver(queue: DiskQueue, { major, minor }: DeviceNumber): Promise<MappedDevice[]> {
  const holders = await queue.run(() => readdir(`/sys/dev/block/${major}:${minor}/holders`)).catch(ignoreMissing);
  return (holders ?? []).flatMap((name) => lookAt(name, () => true) ?? []);
}

/** The device of that number; undefined if it is none of device-mapper's. */
export function mappedDevice({ major, minor }: DeviceNumber): MappedDevice | undefined {
  const name = /^DEVNAME=(dm-[0-9]+)$/m.exec(readText(`/sys/dev/block/${major}:${minor}/uevent`) ?? '')?.[1];
  return name === undefined ? undefined : lookAt(name, () => true);
}

function lookAt(kernelName: string, isWanted: (name: string) => boolean): MappedDevice | undefined {
  const directory = `/sys/block/${kernelName}`;
  const name = readText(`${directory}/dm/name`);
  if (name === undefined || !isWanted(name)) return undefined;
  const device = parseDevice(readText(`${directory}/dev`));
  if (device === undefined) return undefined;
  return {
    device,
    devicePath: `/dev/${kernelName}`,
    name,
    backing: namesIn(`${directory}/slaves`).flatMap(
      (each) => parseDevice(readText(`/sys/class/block/${each}/dev`)) ?? [],
    ),
    readonly: readText(`${directory}/ro`) === '1',
  };
}

function parseDevice(text: string | undefined): DeviceNumber | undefined {
  const [, major, minor] = /^([0-9]+):([0-9]+)$/.exec(text ?? '') ?? [];
  return major === undefined ? undefined : { major: Number(major), minor: Number(minor) };
}

const ENTRY_BYTES = 312;
const DM_DEV_REMOVE: IoctlRequest = { name: 'DM_DEV_REMOVE', number: 0xc138fd04 };
const DM_DEV_STATUS: IoctlRequest = { name: 'DM_DEV_STATUS', number: 0xc138fd07 };
const DM_DEFERRED_REMOVE = 1 << 17;
const controlPath = '/dev/mapper/control';

/** @returns undefined if it is gone */
export async function mappedState(queue: DiskQueue, { device }: MappedDevice): Promise<MappedState | undefined> {
  const answer = await control(queue, DM_DEV_STATUS, device, 0);
  if (answer === undefined) return undefined;
  return { openCount: answer.readInt32LE(24), isGoing: (answer.readUInt32LE(28) & DM_DEFERRED_REMOVE) !== 0 };
}

/** Removes a device now if nobody has it open, otherwise with its last user. Gone is fine. */
export async function removeMapped(queue: DiskQueue, { device }: MappedDevice): Promise<void> {
  await control(queue, DM_DEV_REMOVE, device, DM_DEFERRED_REMOVE);
}

/**
 * Removes the node that a program has made in /dev/mapper, where no udev is that would do it: the kernel does not, and
 * the device's number may come to mean another.
 */
export async function forgetMappedNode(queue: DiskQueue, name: string): Promise<void> {
  await queue.run(() => unlink(`/dev/mapper/${name}`)).catch(ignoreMissing);
}

/** struct dm_ioctl of include/uapi/linux/dm-ioctl.h. By number: a name may be given to another device meanwhile. */
async function control(
  queue: DiskQueue,
  request: IoctlRequest,
  { major, minor }: DeviceNumber,
  flags: number,
): Promise<Buffer | undefined> {
  const entry = Buffer.alloc(ENTRY_BYTES);
  entry.writeUInt32LE(4, 0);
  entry.writeUInt32LE(ENTRY_BYTES, 12);
  entry.writeUInt32LE(ENTRY_BYTES, 16);
  entry.writeUInt32LE(flags, 28);
  entry.writeBigUInt64LE(encoded(major, minor), 40);
  await using descriptor = await openFile(queue, controlPath, constants.O_RDWR);
  try {
    await ioctl(queue, descriptor, request, entry);
    return entry;
  } catch (error) {
    if (isErrno(error, 'ENXIO')) return undefined;
    throw error;
  }
}

/** As the kernel packs it for user space (new_encode_dev). */
function encoded(major: number, minor: number): bigint {
  return BigInt(minor & 0xff) | (BigInt(major) << 8n) | (BigInt(minor & ~0xff) << 12n);
}

function namesIn(directory: string): string[] {
  try {
    return readdirSync(directory);
  } catch (error) {
    return ignoreMissing(error) ?? [];
  }
}

function readText(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8').trim();
  } catch (error) {
    if (isErrno(error, 'ENOENT', 'ENODEV')) return undefined;
    throw error;
  }
}
