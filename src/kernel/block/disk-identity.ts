import { readFile } from 'node:fs/promises';
import type { Descriptor } from '../call/descriptor.ts';
import type { DiskQueue } from '../call/disk-queue.ts';
import { isErrno } from '../call/errno.ts';
import { sizeOfDevice } from './block.ts';
import { type DeviceNumber, loopMajor } from './device.ts';
import { loopStatus } from './loop.ts';
import { loopNumber } from './loop-sysfs.ts';

/** Which disk it is, whatever its name: names as sdb go to another disk when one is pulled, or the machine starts anew. */
export interface DiskIdentity {
  /** What the kernel says of it. */
  readonly name: string;
  readonly sizeBytes: bigint;
}

/** Names that hold only until the machine starts anew begin with this, and with the start they are of. */
const passingPrefix = 'boot ';

/**
 * Where sysfs names a disk for good, the surest first: device-mapper and MD by the UUID of what they show, NVMe and SCSI
 * by the identifier of the namespace or unit, others by a serial number (Documentation/ABI).
 */
const persistentNames = ['dm/uuid', 'md/uuid', 'wwid', 'device/wwid', 'serial', 'device/cid', 'device/serial'] as const;

/** @param device a block device that is open, and its number */
export async function identifyDisk(queue: DiskQueue, device: Descriptor, number: DeviceNumber): Promise<DiskIdentity> {
  return { name: await nameOf(queue, number), sizeBytes: sizeOfDevice(device) };
}

async function nameOf(queue: DiskQueue, number: DeviceNumber): Promise<string> {
  const directory = `/sys/dev/block/${number.major}:${number.minor}`;
  const partition = await readName(queue, `${directory}/partition`);
  if (partition === undefined) return (await nameInSysfs(queue, directory)) ?? (await nameOfLoop(queue, number));
  const start = await readName(queue, `${directory}/start`);
  // Through the symlink, so not to be shortened.
  const parent = `${directory}/..`;
  const disk = (await nameInSysfs(queue, parent)) ?? (await passingName(queue, parent));
  return `${disk}, partition ${partition} from sector ${start}`;
}

async function nameInSysfs(queue: DiskQueue, directory: string): Promise<string | undefined> {
  for (const attribute of persistentNames) {
    const value = await readName(queue, `${directory}/${attribute}`);
    if (value !== undefined) return `${attribute} ${value}`;
  }
  return undefined;
}

/** A loop device is its file. */
async function nameOfLoop(queue: DiskQueue, number: DeviceNumber): Promise<string> {
  const loop = number.major === loopMajor ? loopNumber(number) : undefined;
  const status = loop === undefined ? undefined : await loopStatus(queue, loop);
  if (status === undefined) return passingName(queue, `/sys/dev/block/${number.major}:${number.minor}`);
  return `file ${status.backingDevice.major}:${status.backingDevice.minor} ${status.backingInode}`;
}

/** No two disks that this kernel has seen since it started have the same `diskseq`. */
async function passingName(queue: DiskQueue, directory: string): Promise<string> {
  const boot = await readName(queue, '/proc/sys/kernel/random/boot_id');
  const sequence = await readName(queue, `${directory}/diskseq`);
  return `${passingPrefix}${boot ?? 'unknown'} diskseq ${sequence ?? 'unknown'}`;
}

/** Disks that have no such name have no such file, an empty one, or one that cannot be read. */
async function readName(queue: DiskQueue, path: string): Promise<string | undefined> {
  try {
    const text = (await queue.run(() => readFile(path, 'latin1'))).trim();
    return text === '' ? undefined : text;
  } catch (error) {
    if (isErrno(error, 'ENOENT', 'ENOTDIR', 'ENXIO', 'EINVAL', 'EIO', 'ENODEV')) return undefined;
    throw error;
  }
}

/**
 * Whether two identities are of one disk, as far as the kernel can tell: of a disk without any name of its own, nothing
 * but the size is known once the machine has been started anew.
 */
export function isSameDisk(a: DiskIdentity, b: DiskIdentity): boolean {
  if (a.sizeBytes !== b.sizeBytes) return false;
  if (a.name === b.name) return true;
  return a.name.startsWith(passingPrefix) && b.name.startsWith(passingPrefix) && bootOf(a) !== bootOf(b);
}

function bootOf({ name }: DiskIdentity): string | undefined {
  return name.slice(passingPrefix.length).split(' ')[0];
}
