import { readdirSync, readFileSync } from 'node:fs';
import { readdir, unlink } from 'node:fs/promises';
import { type Descriptor, openReadOnly } from '../call/descriptor.ts';
import type { DiskQueue } from '../call/disk-queue.ts';
import { ignoreMissing, isErrno } from '../call/errno.ts';
import { type IoctlRequest, ioctl, ioctlNow } from '../call/ioctl.ts';
import { type DeviceNumber, deviceNumber, packedNumber } from './device.ts';

/*
 * Devices of device-mapper, by what sysfs has of them and by their control device: both answer from memory, and no disk
 * is asked. Programs make them, as that takes their tables; to look at them and to remove them takes none.
 */

/** A device of device-mapper. */
export interface MappedDevice {
  readonly device: DeviceNumber;
  readonly name: string;
  /** Whose it is: of LVM, `LVM-` and the UUIDs of the volume group and the logical volume without their hyphens. */
  readonly uuid: string;
}

/** What sysfs has of it. */
export interface MappedOver extends MappedDevice {
  /** By the kernel's own name: what is in /dev/mapper is for udev to make, which may not be there. */
  readonly devicePath: string;
  /** The devices that it is made of, none of them opened; of one that is gone nothing is there. */
  readonly backing: readonly DeviceNumber[];
  readonly readonly: boolean;
}

/** What the control device says of it. */
export interface MappedState extends MappedDevice {
  /** By mounts, processes, and devices that are made of it. */
  readonly openCount: number;
  /** It goes with its last user. */
  readonly isGoing: boolean;
}

/** What a target says of itself, in words of its own (Documentation/admin-guide/device-mapper). */
export interface TargetStatus {
  readonly type: string;
  readonly text: string;
}

/** All whose name is wanted. */
export async function findMapped(queue: DiskQueue, isWanted: (name: string) => boolean): Promise<MappedOver[]> {
  const names = (await queue.run(() => readdir('/sys/block'))).filter((name) => name.startsWith('dm-'));
  return names.flatMap((name) => lookAt(`/sys/block/${name}`, isWanted) ?? []);
}

/** Those that are made of a device. */
export async function mappedOver(queue: DiskQueue, { major, minor }: DeviceNumber): Promise<MappedOver[]> {
  const holders = await queue.run(() => readdir(`/sys/dev/block/${major}:${minor}/holders`)).catch(ignoreMissing);
  return (holders ?? []).flatMap((name) => lookAt(`/sys/block/${name}`) ?? []);
}

/** The device of that number; undefined if it is none of device-mapper's. */
export function mappedDevice({ major, minor }: DeviceNumber): MappedOver | undefined {
  return lookAt(`/sys/dev/block/${major}:${minor}`);
}

function lookAt(directory: string, isWanted = (_name: string) => true): MappedOver | undefined {
  const name = readText(`${directory}/dm/name`);
  if (name === undefined || !isWanted(name)) return undefined;
  const device = parseDevice(readText(`${directory}/dev`));
  const uuid = readText(`${directory}/dm/uuid`);
  if (device === undefined || uuid === undefined) return undefined;
  return {
    device,
    devicePath: mappedPath(device),
    name,
    uuid,
    backing: namesIn(`${directory}/slaves`).flatMap(
      (each) => parseDevice(readText(`/sys/class/block/${each}/dev`)) ?? [],
    ),
    readonly: readText(`${directory}/ro`) === '1',
  };
}

/** As the kernel names it, with or without udev. */
export function mappedPath({ minor }: DeviceNumber): string {
  return `/dev/dm-${minor}`;
}

function parseDevice(text: string | undefined): DeviceNumber | undefined {
  const [, major, minor] = /^([0-9]+):([0-9]+)$/.exec(text ?? '') ?? [];
  return major === undefined ? undefined : { major: Number(major), minor: Number(minor) };
}

const controlPath = '/dev/mapper/control';
const DM_DEV_STATUS: IoctlRequest = { name: 'DM_DEV_STATUS', number: 0xc138fd07 };
const DM_DEV_REMOVE: IoctlRequest = { name: 'DM_DEV_REMOVE', number: 0xc138fd04 };
const DM_TABLE_STATUS: IoctlRequest = { name: 'DM_TABLE_STATUS', number: 0xc138fd0c };
const DM_DEFERRED_REMOVE = 1 << 17;
const DM_NOFLUSH = 1 << 11;
/** All requests take a struct dm_ioctl (include/uapi/linux/dm-ioctl.h), with room for no data behind it. */
const structBytes = 312;
const at = { size: 12, start: 16, targetCount: 20, openCount: 24, flags: 28, device: 40, name: 48, uuid: 176 } as const;
const nameBytes = 128;
const uuidBytes = 129;
/** A struct dm_target_spec: its status is text behind it. */
const targetBytes = 40;
const targetTypeAt = 24;
/** Room for one target and its status. */
const statusBytes = 4096;

/** By number is surer than by name, which may be given to another device meanwhile. */
type Wanted = string | DeviceNumber;

/** The control device. */
export class DeviceMapper {
  static #opened: Promise<DeviceMapper> | undefined;
  readonly #control: Descriptor;

  private constructor(control: Descriptor) {
    this.#control = control;
  }

  /** One for all, and never closed: what is mounted of a pool that was given up must still be found. */
  static open(queue: DiskQueue): Promise<DeviceMapper> {
    const opening = DeviceMapper.#opened ?? openReadOnly(queue, controlPath).then((file) => new DeviceMapper(file));
    DeviceMapper.#opened = opening;
    opening.catch(() => {
      if (DeviceMapper.#opened === opening) DeviceMapper.#opened = undefined;
    });
    return opening;
  }

  /** @returns undefined if there is no such device */
  find(wanted: Wanted): MappedState | undefined {
    const request = requestFor(wanted);
    try {
      ioctlNow(this.#control, DM_DEV_STATUS, request);
    } catch (error) {
      if (isErrno(error, 'ENXIO')) return undefined;
      throw error;
    }
    return {
      name: textAt(request, at.name, nameBytes),
      uuid: textAt(request, at.uuid, uuidBytes),
      device: deviceNumber(request.readBigUInt64LE(at.device)),
      openCount: request.readInt32LE(at.openCount),
      isGoing: (request.readUInt32LE(at.flags) & DM_DEFERRED_REMOVE) !== 0,
    };
  }

  /**
   * What the first target of a device says of itself. @param isExact what is told may be a second old otherwise, but no disk
   * is written to
   * @returns undefined if there is no such device
   */
  async status(queue: DiskQueue, wanted: Wanted, isExact: boolean): Promise<TargetStatus | undefined> {
    const request = Buffer.concat([requestFor(wanted, isExact ? 0 : DM_NOFLUSH), Buffer.alloc(statusBytes)]);
    request.writeUInt32LE(request.length, at.size);
    try {
      await ioctl(queue, this.#control, DM_TABLE_STATUS, request);
    } catch (error) {
      if (isErrno(error, 'ENXIO')) return undefined;
      throw error;
    }
    if (request.readUInt32LE(at.targetCount) === 0) return undefined;
    const start = request.readUInt32LE(at.start);
    return {
      type: textAt(request, start + targetTypeAt, targetBytes - targetTypeAt),
      text: textAt(request, start + targetBytes, request.length - start - targetBytes).trim(),
    };
  }

  /** Removes a device that nobody has open, whatever lies below it. One that is gone, or in use, is left. */
  async removeUnused(queue: DiskQueue, wanted: Wanted): Promise<void> {
    await this.#remove(queue, wanted, 0).catch((error) => {
      if (!isErrno(error, 'EBUSY')) throw error;
    });
  }

  /** Removes a device now if nobody has it open, otherwise with its last user. Gone is fine. */
  async removeWhenUnused(queue: DiskQueue, wanted: Wanted): Promise<void> {
    await this.#remove(queue, wanted, DM_DEFERRED_REMOVE);
  }

  async #remove(queue: DiskQueue, wanted: Wanted, flags: number): Promise<void> {
    await ioctl(queue, this.#control, DM_DEV_REMOVE, requestFor(wanted, flags)).catch((error) => {
      if (!isErrno(error, 'ENXIO')) throw error;
    });
  }
}

/**
 * Removes the node that a program has made in /dev/mapper, where no udev is that would do it: the kernel does not, and
 * the device's number may come to mean another.
 */
export async function forgetMappedNode(queue: DiskQueue, name: string): Promise<void> {
  await queue.run(() => unlink(`/dev/mapper/${name}`)).catch(ignoreMissing);
}

function requestFor(wanted: Wanted, flags = 0): Buffer {
  const request = Buffer.alloc(structBytes);
  // The version of the interface, which has been 4 since Linux 2.6.
  request.writeUInt32LE(4, 0);
  request.writeUInt32LE(structBytes, at.size);
  request.writeUInt32LE(structBytes, at.start);
  request.writeUInt32LE(flags, at.flags);
  if (typeof wanted !== 'string') {
    request.writeBigUInt64LE(packedNumber(wanted), at.device);
    return request;
  }
  if (Buffer.byteLength(wanted) >= nameBytes) throw new RangeError(`a mapped device cannot be named ${wanted}`);
  request.write(wanted, at.name);
  return request;
}

function textAt(request: Buffer, start: number, lengthBytes: number): string {
  const bytes = request.subarray(start, start + lengthBytes);
  return bytes.toString('latin1', 0, bytes.indexOf(0));
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
    return readFileSync(path, 'latin1').trim();
  } catch (error) {
    if (isErrno(error, 'ENOENT', 'ENOTDIR', 'ENXIO', 'ENODEV')) return undefined;
    throw error;
  }
}
