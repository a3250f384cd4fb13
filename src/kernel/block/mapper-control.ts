import { readFileSync } from 'node:fs';
import { type Descriptor, openReadOnly } from '../call/descriptor.ts';
import type { DiskQueue } from '../call/disk-queue.ts';
import { isErrno } from '../call/errno.ts';
import { type IoctlRequest, ioctl, ioctlNow } from '../call/ioctl.ts';
import { type DeviceNumber, deviceNumber } from './device.ts';

/** A device of device-mapper, as the kernel knows it. */
export interface MappedDevice {
  readonly name: string;
  /** Of LVM: `LVM-`, and the UUIDs of the volume group and the logical volume without their hyphens. */
  readonly uuid: string;
  readonly device: DeviceNumber;
  /** By mounts, processes, and devices that are made of it. */
  readonly openCount: number;
}

const controlPath = '/dev/mapper/control';

/** All requests take a struct dm_ioctl (linux/dm-ioctl.h), with room for no data behind it. */
const structBytes = 312;
const DM_DEV_STATUS: IoctlRequest = { name: 'DM_DEV_STATUS', number: 0xc138fd07 };
const DM_DEV_REMOVE: IoctlRequest = { name: 'DM_DEV_REMOVE', number: 0xc138fd04 };
const at = { dataSize: 12, openCount: 24, dev: 40, name: 48, uuid: 176 } as const;
const nameBytes = 128;
const uuidBytes = 129;

/** The kernel's device-mapper, which answers from memory: no disk is asked. */
export class DeviceMapper {
  static #opened: DeviceMapper | undefined;
  readonly #control: Descriptor;

  private constructor(control: Descriptor) {
    this.#control = control;
  }

  /** One for all, and never closed: what is mounted of a pool that was given up must still be found. */
  static async open(queue: DiskQueue): Promise<DeviceMapper> {
    DeviceMapper.#opened ??= new DeviceMapper(await openReadOnly(queue, controlPath));
    return DeviceMapper.#opened;
  }

  /** @returns undefined if there is no such device */
  find(name: string): MappedDevice | undefined {
    return this.#status(requestFor(name));
  }

  /** @returns undefined if it is no device of device-mapper */
  findByNumber({ major, minor }: DeviceNumber): MappedDevice | undefined {
    const request = requestFor('');
    const packed = (minor & 0xff) | (major << 8) | ((minor & ~0xff) << 12);
    request.writeUInt32LE(packed >>> 0, at.dev);
    return this.#status(request);
  }

  #status(request: Buffer): MappedDevice | undefined {
    try {
      ioctlNow(this.#control, DM_DEV_STATUS, request);
    } catch (error) {
      if (isErrno(error, 'ENXIO')) return undefined;
      throw error;
    }
    return {
      name: text(request, at.name, nameBytes),
      uuid: text(request, at.uuid, uuidBytes),
      device: deviceNumber(request.readBigUInt64LE(at.dev)),
      openCount: request.readInt32LE(at.openCount),
    };
  }

  /** Takes a device away that nobody has open, whatever lies below it. One that is gone, or in use, is left. */
  async remove(queue: DiskQueue, name: string): Promise<void> {
    await ioctl(queue, this.#control, DM_DEV_REMOVE, requestFor(name)).catch((error) => {
      if (!isErrno(error, 'ENXIO', 'EBUSY')) throw error;
    });
  }
}

/** What sysfs calls a device of device-mapper: no disk is asked. @returns undefined if it is none */
export function mappedNameInSysfs({ major, minor }: DeviceNumber): Pick<MappedDevice, 'name' | 'uuid'> | undefined {
  const directory = `/sys/dev/block/${major}:${minor}/dm`;
  try {
    const [name, uuid] = ['name', 'uuid'].map((file) => readFileSync(`${directory}/${file}`, 'latin1').trim());
    return name === undefined || uuid === undefined ? undefined : { name, uuid };
  } catch (error) {
    if (isErrno(error, 'ENOENT', 'ENOTDIR', 'ENXIO', 'ENODEV')) return undefined;
    throw error;
  }
}

function requestFor(name: string): Buffer {
  const request = Buffer.alloc(structBytes);
  // The version of the interface, which has been 4 since Linux 2.6.
  request.writeUInt32LE(4, 0);
  request.writeUInt32LE(structBytes, at.dataSize);
  if (Buffer.byteLength(name) >= nameBytes) throw new RangeError(`a mapped device cannot be named ${name}`);
  request.write(name, at.name);
  return request;
}

function text(request: Buffer, start: number, lengthBytes: number): string {
  const bytes = request.subarray(start, start + lengthBytes);
  return bytes.toString('latin1', 0, bytes.indexOf(0));
}
