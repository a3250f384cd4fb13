import { constants } from 'node:fs';
import { stat } from 'node:fs/promises';
import { type DeviceLimits, limitsOfDevice, sequenceOfDevice } from '../../../kernel/block/block.ts';
import { type Disk, type DiskPlace, findBlockDevice, findDisk, listDisks } from '../../../kernel/block/disks.ts';
import { type Descriptor, openFile } from '../../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { isErrno } from '../../../kernel/call/errno.ts';
import { type DeviceNumber, deviceNumber, sameDevice } from '../../../kernel/device.ts';
import { FailedPrecondition, Unavailable } from '../../../volume/errors.ts';

/** The disk or partition of a pool, as the kernel has it now. */
export interface FoundDisk {
  /** The path in the configuration. */
  readonly path: string;
  readonly device: DeviceNumber;
  /** By the kernel's own name: `/dev/sdb`. */
  readonly devicePath: string;
  readonly place: DiskPlace;
  /** Its permanent name; undefined: none. */
  readonly name: string | undefined;
}

/**
 * Finds it by what its path stands for now, without opening it.
 * @throws FailedPrecondition if there is no disk
 */
export async function locateDisk(queue: DiskQueue, poolName: string, path: string): Promise<FoundDisk> {
  const device = await numberOf(queue, poolName, path);
  const place = await findDisk(queue, device);
  if (place !== undefined) return foundAt(path, device, place);
  throw new FailedPrecondition(
    `pool ${poolName}: ${path} is neither a disk nor a partition of one (see holdfast disks). Name one.`,
  );
}

/** The same of any block device. */
export async function locateDevice(queue: DiskQueue, path: string, device: DeviceNumber): Promise<FoundDisk> {
  const place = await findBlockDevice(queue, device);
  if (place === undefined) throw new Unavailable(`${path} is gone just now: it is looked for again.`);
  return foundAt(path, device, place);
}

function foundAt(path: string, device: DeviceNumber, place: DiskPlace): FoundDisk {
  const { disk, part } = place;
  const devicePath = part === undefined ? disk.devicePath : `/dev/${part.name}`;
  return { path, device, devicePath, place, name: nameOf(disk, part?.label) };
}

/** The permanent name of a disk, or of a part of it. */
function nameOf({ identity }: Disk, partLabel: string | undefined): string | undefined {
  return identity === undefined || partLabel === undefined ? identity : `${identity}, ${partLabel}`;
}

async function numberOf(queue: DiskQueue, poolName: string, path: string): Promise<DeviceNumber> {
  try {
    const status = await queue.run(() => stat(path, { bigint: true }));
    if (status.isBlockDevice()) return deviceNumber(status.rdev);
  } catch (error) {
    if (!isErrno(error, 'ENOENT', 'ENOTDIR')) throw error;
    throw new FailedPrecondition(
      `pool ${poolName}: there is no ${path} on this node. Is the disk there? (holdfast disks shows those that are.)`,
    );
  }
  throw new FailedPrecondition(`pool ${poolName}: ${path} is no block device. Name a disk or a partition.`);
}

/** The disk, open. As long as it is, reads and writes through it reach no other disk. */
export interface OpenDisk {
  readonly descriptor: Descriptor;
  readonly shape: DeviceLimits;
}

/**
 * Opens it, and makes sure that it is the one that was found: a name, and the number behind it, may stand for another disk
 * by now.
 */
export async function openDisk(queue: DiskQueue, found: FoundDisk, flags: number): Promise<OpenDisk> {
  const descriptor = await openFile(queue, found.devicePath, flags | constants.O_NONBLOCK);
  try {
    await requireStill(queue, found, descriptor);
    return { descriptor, shape: limitsOfDevice(descriptor) };
  } catch (error) {
    await descriptor[Symbol.asyncDispose]();
    throw error;
  }
}

/** Checks that the open device, and the one in sysfs under that number, is the disk that was found. @throws Unavailable */
export async function requireStill(
  queue: DiskQueue,
  found: FoundDisk,
  descriptor: Descriptor | undefined,
): Promise<void> {
  const { sequence } = found.place;
  if (descriptor !== undefined) {
    const { rdev } = await queue.run(() => descriptor.during((path) => stat(path, { bigint: true })));
    if (!sameDevice(deviceNumber(rdev), found.device) || sequenceOfDevice(descriptor) !== sequence)
      throw swapped(found);
  }
  const now = await findBlockDevice(queue, found.device);
  const isSame = now?.sequence === sequence && nameOf(now?.disk ?? found.place.disk, now?.part?.label) === found.name;
  if (now === undefined || !isSame) throw swapped(found);
}

export function swapped({ path }: FoundDisk): Unavailable {
  return new Unavailable(`${path} is another disk than a moment ago: it is looked at again.`);
}

/** The other disks and partitions that are there, and have a name. @returns their paths */
export async function othersWithName(queue: DiskQueue, { device }: FoundDisk, name: string): Promise<string[]> {
  const paths: string[] = [];
  for (const disk of await listDisks(queue)) {
    for (const each of [disk, ...disk.partitions]) {
      if (sameDevice(each.device, device)) continue;
      const place = await findDisk(queue, each.device);
      if (place !== undefined && nameOf(place.disk, place.part?.label) === name) paths.push(`/dev/${each.name}`);
    }
  }
  return paths;
}
