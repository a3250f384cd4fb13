import { randomUUID } from 'node:crypto';
import { constants, rmSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import koffi from 'koffi';
import { type Descriptor, type Openable, openFile } from '../call/descriptor.ts';
import type { DiskQueue } from '../call/disk-queue.ts';
import { isErrno } from '../call/errno.ts';
import { type IoctlRequest, ioctl } from '../call/ioctl.ts';
import { invoke, libcCall } from '../call/libc.ts';
import { statusOf } from '../file/path.ts';
import { type DeviceNumber, sameDevice } from './device.ts';

/*
 * Partitions as the kernel knows them, one by one (linux/blkpg.h). To have it read the whole table again (BLKRRPART) fails
 * as long as anything of the disk is in use, and needs nothing of what is done here.
 */

const BLKPG: IoctlRequest = { name: 'BLKPG', number: 0x1269 };
const BLKPG_ADD_PARTITION = 1;
const BLKPG_DEL_PARTITION = 2;

/** struct blkpg_ioctl_arg: op, flags, length of the data, pointer to it. */
const argumentBytes = 24;
/** struct blkpg_partition: start, length, number, and two names of 64 bytes that nobody reads. */
const partitionBytes = 152;

export interface PartitionPlace {
  readonly number: number;
  readonly startBytes: bigint;
  readonly lengthBytes: bigint;
}

/** Shows a part of a disk as a device. @throws KernelError EBUSY if it overlaps another one, or the number is taken */
export async function addPartition(queue: DiskQueue, disk: Descriptor, place: PartitionPlace): Promise<void> {
  await ioctl(queue, disk, BLKPG, request(BLKPG_ADD_PARTITION, place));
}

/** @throws KernelError EBUSY if anybody has it open, ENXIO if there is none */
export async function deletePartition(queue: DiskQueue, disk: Descriptor, number: number): Promise<void> {
  await ioctl(queue, disk, BLKPG, request(BLKPG_DEL_PARTITION, { number, startBytes: 0n, lengthBytes: 0n }));
}

function request(operation: number, { lengthBytes, number, startBytes }: PartitionPlace): Buffer {
  // In one piece, so that the pointer is to memory that lives as long as the call.
  const memory = Buffer.alloc(argumentBytes + partitionBytes);
  memory.writeInt32LE(operation, 0);
  memory.writeInt32LE(partitionBytes, 8);
  memory.writeBigUInt64LE(koffi.address(memory) + BigInt(argumentBytes), 16);
  memory.writeBigInt64LE(startBytes, argumentBytes);
  memory.writeBigInt64LE(lengthBytes, argumentBytes + 8);
  memory.writeInt32LE(number, argumentBytes + 16);
  return memory;
}

/** A partition that the kernel shows. */
export interface Partition extends PartitionPlace {
  readonly name: string;
  readonly device: DeviceNumber;
}

const sysfsSectorBytes = 512n;

/** The partition of a disk that has this number; undefined: the kernel shows none. @param diskName as in /sys/block */
export async function findPartition(
  queue: DiskQueue,
  diskName: string,
  number: number,
): Promise<Partition | undefined> {
  const name = partitionName(diskName, number);
  const read = async (attribute: string) =>
    (await queue.run(() => readFile(`/sys/block/${diskName}/${name}/${attribute}`, 'latin1'))).trim();
  try {
    const [device, start, size] = [await read('dev'), await read('start'), await read('size')];
    const [major = '', minor = ''] = device.split(':');
    return {
      ...{ name, number, device: { major: Number(major), minor: Number(minor) } },
      startBytes: BigInt(start) * sysfsSectorBytes,
      lengthBytes: BigInt(size) * sysfsSectorBytes,
    };
  } catch (error) {
    if (isErrno(error, 'ENOENT', 'ENODEV')) return undefined;
    throw error;
  }
}

/** As the kernel puts it together (Documentation/block, bdev_name): a digit at the end is kept apart by a p. */
export function partitionName(diskName: string, number: number): string {
  return /[0-9]$/.test(diskName) ? `${diskName}p${number}` : `${diskName}${number}`;
}

const mknodCall = libcCall<readonly [string, number, number]>(
  'int mknod(const char *path, uint mode, uint64_t device)',
);

/**
 * Opens the node of a device in /dev, whose name the kernel chose, and makes it if it is not there: without a devtmpfs, and
 * without udev, nobody else does. @returns undefined if the node stands for another device
 */
export async function openBlockNode(
  queue: DiskQueue,
  path: string,
  device: DeviceNumber,
  flags: number,
): Promise<Descriptor | undefined> {
  const opened = await openOrMake(queue, path, device, flags);
  if (sameDevice((await statusOf(queue, opened)).represents, device)) return opened;
  await opened[Symbol.asyncDispose]();
  return undefined;
}

async function openOrMake(queue: DiskQueue, path: string, device: DeviceNumber, flags: number): Promise<Descriptor> {
  try {
    return await openFile(queue, path, flags);
  } catch (error) {
    if (!isErrno(error, 'ENOENT')) throw error;
  }
  try {
    await makeBlockNode(queue, path, device);
  } catch (error) {
    if (!isErrno(error, 'EEXIST')) throw error;
  }
  return openFile(queue, path, flags);
}

async function makeBlockNode(queue: DiskQueue, path: string, device: DeviceNumber): Promise<void> {
  await invoke(queue, mknodCall, [path, constants.S_IFBLK | 0o600, packed(device)], path);
}

/**
 * Opens a disk through a node of its own, which is gone afterwards. udev watches the node in /dev: when somebody who could
 * write closes that one, it has the kernel read the partition table anew, and looks into all that there is.
 */
export async function openUnwatched(
  queue: DiskQueue,
  { device, devicePath }: { readonly device: DeviceNumber; readonly devicePath: string },
  open: (node: Openable) => Promise<Descriptor | undefined>,
): Promise<Descriptor | undefined> {
  const path = `/dev/.holdfast-${randomUUID()}`;
  await makeBlockNode(queue, path, device);
  try {
    return await open({ path: devicePath, asPath: { lend: () => path, giveBack: () => undefined } });
  } finally {
    // In memory, like all of /dev: nothing waits for a disk.
    rmSync(path, { force: true });
  }
}

/** makedev(3) for a major below 4096. */
function packed({ major, minor }: DeviceNumber): number {
  return (minor & 0xff) + major * 0x100 + (minor >>> 8) * 0x100000;
}
