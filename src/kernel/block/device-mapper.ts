import { readdir, unlink } from 'node:fs/promises';
import { type Descriptor, openReadOnly } from '../call/descriptor.ts';
import type { DiskQueue } from '../call/disk-queue.ts';
import { ignoreMissing, isErrno } from '../call/errno.ts';
import { type IoctlRequest, ioctl, ioctlNow } from '../call/ioctl.ts';
import { type DeviceNumber, deviceNumber, loopMajor, parseDeviceNumber } from '../device.ts';
import { sysfsNames, sysfsText } from '../file/sysfs.ts';
import {
  at,
  linearTable,
  messageRequest,
  nameBytes,
  requestFor,
  tableRequest,
  targetBytes,
  targetTypeAt,
  textAt,
  uuidBytes,
  type Wanted,
} from './dm-request.ts';

/*
 * Devices of device-mapper, as sysfs and their control device show them: both answer from memory, and no disk is read.
 * Programs make devices with tables of more than a line.
 */

/** A device of device-mapper. */
export interface MappedDevice {
  readonly device: DeviceNumber;
  readonly name: string;
  /**
   * Identifies the owner. For LVM: `LVM-` and the UUIDs of the volume group and the logical volume without their
   * hyphens.
   */
  readonly uuid: string;
}

/** A device as sysfs shows it. */
export interface MappedOver extends MappedDevice {
  /** Path with the kernel's name: links in /dev/mapper come from udev, and may be missing. */
  readonly devicePath: string;
  /** The devices below it, none of which are opened; missing devices are left out. */
  readonly backing: readonly DeviceNumber[];
  readonly readonly: boolean;
  readonly sizeBytes: bigint;
}

/** A device as the control device shows it. */
export interface MappedState extends MappedDevice {
  /** Users: mounts, processes, and devices built on it. */
  readonly openCount: number;
  /** The kernel removes it with its last user. */
  readonly isGoing: boolean;
  /** false: the program that made it ended before it loaded a table. */
  readonly isLive: boolean;
  /** Reads and writes wait (`suspend`). */
  readonly isSuspended: boolean;
}

/** A device that is a part of another one. */
export interface LinearDevice {
  readonly name: string;
  readonly uuid: string;
  readonly over: DeviceNumber;
  readonly offsetBytes: bigint;
  readonly lengthBytes: bigint;
}

/** A target's status in the target's own format (Documentation/admin-guide/device-mapper). */
export interface TargetStatus {
  readonly type: string;
  readonly text: string;
}

/** Finds all devices with a wanted name. */
export async function findMapped(queue: DiskQueue, isWanted: (name: string) => boolean): Promise<MappedOver[]> {
  const names = (await queue.run(() => readdir('/sys/block'))).filter((name) => name.startsWith('dm-'));
  return names.flatMap((name) => lookAt(`/sys/block/${name}`, isWanted) ?? []);
}

/** Finds the devices that are built on a device. */
export async function mappedOver(queue: DiskQueue, { major, minor }: DeviceNumber): Promise<MappedOver[]> {
  const holders = await queue.run(() => readdir(`/sys/dev/block/${major}:${minor}/holders`)).catch(ignoreMissing);
  return (holders ?? []).flatMap((name) => lookAt(`/sys/block/${name}`) ?? []);
}

/** The device with that number; undefined if device-mapper has none. */
export function mappedDevice({ major, minor }: DeviceNumber): MappedOver | undefined {
  if (major === loopMajor) return undefined;
  return lookAt(`/sys/dev/block/${major}:${minor}`);
}

function lookAt(directory: string, isWanted = (_name: string) => true): MappedOver | undefined {
  const name = sysfsText(`${directory}/dm/name`);
  if (name === undefined || !isWanted(name)) return undefined;
  const device = parseDeviceNumber(sysfsText(`${directory}/dev`));
  const uuid = sysfsText(`${directory}/dm/uuid`);
  if (device === undefined || uuid === undefined) return undefined;
  return {
    device,
    devicePath: mappedPath(device),
    name,
    uuid,
    backing: sysfsNames(`${directory}/slaves`).flatMap(
      (each) => parseDeviceNumber(sysfsText(`/sys/class/block/${each}/dev`)) ?? [],
    ),
    readonly: sysfsText(`${directory}/ro`) === '1',
    sizeBytes: BigInt(sysfsText(`${directory}/size`) ?? 0) * sectorBytes,
  };
}

/** The path with the kernel's name, which exists with or without udev. */
export function mappedPath({ minor }: DeviceNumber): string {
  return `/dev/dm-${minor}`;
}

const controlPath = '/dev/mapper/control';
const DM_DEV_CREATE: IoctlRequest = { name: 'DM_DEV_CREATE', number: 0xc138fd03 };
const DM_DEV_REMOVE: IoctlRequest = { name: 'DM_DEV_REMOVE', number: 0xc138fd04 };
const DM_DEV_SUSPEND: IoctlRequest = { name: 'DM_DEV_SUSPEND', number: 0xc138fd06 };
const DM_DEV_STATUS: IoctlRequest = { name: 'DM_DEV_STATUS', number: 0xc138fd07 };
const DM_TABLE_CLEAR: IoctlRequest = { name: 'DM_TABLE_CLEAR', number: 0xc138fd0a };
const DM_TABLE_LOAD: IoctlRequest = { name: 'DM_TABLE_LOAD', number: 0xc138fd09 };
const DM_TARGET_MSG: IoctlRequest = { name: 'DM_TARGET_MSG', number: 0xc138fd0e };
const DM_TABLE_STATUS: IoctlRequest = { name: 'DM_TABLE_STATUS', number: 0xc138fd0c };
const DM_GET_TARGET_VERSION: IoctlRequest = { name: 'DM_GET_TARGET_VERSION', number: 0xc138fd11 };
const DM_SUSPEND = 1 << 1;
const DM_STATUS_TABLE = 1 << 4;
const DM_ACTIVE_PRESENT = 1 << 5;
const DM_SKIP_LOCKFS = 1 << 10;
const DM_NOFLUSH = 1 << 11;
const DM_DEFERRED_REMOVE = 1 << 17;
/** The unit of sysfs, independent of the device's sectors. */
const sectorBytes = 512n;
/** Room for one target and its status. */
const statusBytes = 4096;
/**
 * For udev: do not probe the content, and make no links (libdevmapper.h, DM_UDEV_DISABLE_*; the kernel passes them on
 * in the upper half of the cookie). Nothing waits for the lower half.
 */
const leftAloneByUdev = ((0x2 | 0x4 | 0x8 | 0x20) << 16) | 1;

/** The control device. */
export class DeviceMapper {
  static #opened: Promise<DeviceMapper> | undefined;
  readonly #control: Descriptor;

  private constructor(control: Descriptor) {
    this.#control = control;
  }

  /** Shared by all, and never closed: mounts of a pool that was given up must still be found. */
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
      isLive: (request.readUInt32LE(at.flags) & DM_ACTIVE_PRESENT) !== 0,
      isSuspended: (request.readUInt32LE(at.flags) & DM_SUSPEND) !== 0,
    };
  }

  /**
   * The status of the first target of a device. @param isExact false: the status may be a second old, but no disk is
   * written to
   * @returns undefined if there is no such device
   */
  status(queue: DiskQueue, wanted: Wanted, isExact: boolean): Promise<TargetStatus | undefined> {
    return this.#firstTarget(queue, wanted, isExact ? 0 : DM_NOFLUSH);
  }

  /** The table line of the first target of a device. @returns undefined if there is no such device */
  table(queue: DiskQueue, wanted: Wanted): Promise<TargetStatus | undefined> {
    return this.#firstTarget(queue, wanted, DM_STATUS_TABLE | DM_NOFLUSH);
  }

  async #firstTarget(queue: DiskQueue, wanted: Wanted, flags: number): Promise<TargetStatus | undefined> {
    const request = Buffer.concat([requestFor(wanted, flags), Buffer.alloc(statusBytes)]);
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

  /**
   * Makes the kernel load the module of a target, as it does for every user (Linux 5.4). @returns true if the kernel
   * has the target
   */
  async knows(queue: DiskQueue, targetType: string): Promise<boolean> {
    try {
      await ioctl(queue, this.#control, DM_GET_TARGET_VERSION, requestFor(targetType));
      return true;
    } catch (error) {
      if (isErrno(error, 'EINVAL', 'ENOTTY')) return false;
      throw error;
    }
  }

  /** Sends a message to the first target of a device. @throws KernelError */
  async tell(queue: DiskQueue, wanted: Wanted, message: string): Promise<void> {
    await ioctl(queue, this.#control, DM_TARGET_MSG, messageRequest(wanted, message));
  }

  /**
   * Blocks all reads and writes until `resume`; those in progress end, or wait, too. Does not freeze a filesystem on
   * the device.
   */
  async suspend(queue: DiskQueue, wanted: DeviceNumber): Promise<void> {
    await ioctl(queue, this.#control, DM_DEV_SUSPEND, requestFor(wanted, DM_SUSPEND | DM_SKIP_LOCKFS | DM_NOFLUSH));
  }

  /** Drops a table that was loaded and is not live yet: `resume` would make it live. */
  async clear(queue: DiskQueue, wanted: DeviceNumber): Promise<void> {
    await ioctl(queue, this.#control, DM_TABLE_CLEAR, requestFor(wanted));
  }

  /** Resumes a suspended device, and leaves others unchanged. */
  async resume(queue: DiskQueue, wanted: DeviceNumber): Promise<void> {
    await ioctl(queue, this.#control, DM_DEV_SUSPEND, requestFor(wanted));
  }

  /**
   * Makes a device from a part of another one, which no other user can have exclusively from then on. After an
   * interruption it exists without a table (`isLive`).
   * @throws KernelError EBUSY if there is one with that name or UUID
   */
  async createLinear(queue: DiskQueue, { name, over, uuid, ...part }: LinearDevice): Promise<void> {
    const request = requestFor(name);
    request.write(uuid, at.uuid);
    await ioctl(queue, this.#control, DM_DEV_CREATE, request);
    try {
      await ioctl(queue, this.#control, DM_TABLE_LOAD, tableRequest(name, linearTable(over, part)));
      const resume = requestFor(name);
      resume.writeUInt32LE(leftAloneByUdev, at.eventNumber);
      await ioctl(queue, this.#control, DM_DEV_SUSPEND, resume);
    } catch (error) {
      await this.#remove(queue, name, 0).catch(() => undefined);
      throw error;
    }
  }

  /**
   * Removes a device that is not open, independent of the state of the devices below. Missing devices, and devices in
   * use, are left.
   */
  async removeUnused(queue: DiskQueue, wanted: Wanted): Promise<void> {
    await this.#remove(queue, wanted, 0).catch((error) => {
      if (!isErrno(error, 'EBUSY')) throw error;
    });
  }

  /** Removes a device now if it is not open, otherwise with its last user. Missing is fine. */
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
 * Removes the node that a program made in /dev/mapper, where no udev would do it: the kernel does not, and the number
 * may get another meaning. @param link another link to the device, in /dev
 */
export async function forgetMappedNode(queue: DiskQueue, name: string, link?: string): Promise<void> {
  await queue.run(() => unlink(`/dev/mapper/${name}`)).catch(ignoreMissing);
  if (link !== undefined) await queue.run(() => unlink(`/dev/${link}`)).catch(ignoreMissing);
}
