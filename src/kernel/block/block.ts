import { constants } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { type Descriptor, type Openable, openFile, openReadOnly } from '../call/descriptor.ts';
import type { DiskQueue } from '../call/disk-queue.ts';
import { isErrno } from '../call/errno.ts';
import { type IoctlRequest, ioctl, ioctlNow } from '../call/ioctl.ts';

const BLKGETSIZE64: IoctlRequest = { name: 'BLKGETSIZE64', number: 0x80081272 };
const BLKSSZGET: IoctlRequest = { name: 'BLKSSZGET', number: 0x1268 };
const BLKROSET: IoctlRequest = { name: 'BLKROSET', number: 0x125d };
const BLKROGET: IoctlRequest = { name: 'BLKROGET', number: 0x125e };
const BLKFLSBUF: IoctlRequest = { name: 'BLKFLSBUF', number: 0x1261 };
const BLKGETDISKSEQ: IoctlRequest = { name: 'BLKGETDISKSEQ', number: 0x80081280 };

/** How large a block device is. */
export async function deviceSizeBytes(queue: DiskQueue, device: Openable): Promise<bigint> {
  await using descriptor = await openReadOnly(queue, device);
  return sizeOfDevice(descriptor);
}

/** The size of an open device. The kernel has it in memory. */
export function sizeOfDevice(device: Descriptor): bigint {
  const size = Buffer.alloc(8);
  ioctlNow(device, BLKGETSIZE64, size);
  return size.readBigUInt64LE();
}

/** Whether an open device refuses writes. The kernel has this mark in memory. */
export function refusesWrites(device: Descriptor): boolean {
  const flag = Buffer.alloc(4);
  ioctlNow(device, BLKROGET, flag);
  return flag.readInt32LE() !== 0;
}

/**
 * Makes a device refuse writes, or take them, from everybody who has it open now or later. The mark belongs to the
 * device's number, so it outlives what is attached there.
 */
export function setRefusesWrites(device: Descriptor, refuses: boolean): void {
  const flag = Buffer.alloc(4);
  flag.writeInt32LE(refuses ? 1 : 0);
  ioctlNow(device, BLKROSET, flag);
}

/**
 * The number that the kernel gave the disk when it saw it, and gives to no other one until the next boot; that of the whole
 * disk for a partition. undefined: this kernel counts none (before Linux 5.15).
 */
export function sequenceOfDevice(device: Descriptor): bigint | undefined {
  const sequence = Buffer.alloc(8);
  try {
    ioctlNow(device, BLKGETDISKSEQ, sequence);
  } catch (error) {
    if (isErrno(error, 'ENOTTY', 'EINVAL')) return undefined;
    throw error;
  }
  return sequence.readBigUInt64LE();
}

/** Writes what memory has of a device, and forgets it: what is read next is what the disk has. */
export async function dropCache(queue: DiskQueue, device: Descriptor): Promise<void> {
  await ioctl(queue, device, BLKFLSBUF, 0);
}

/** The limits of an open block device. The kernel has them in memory. */
export interface DeviceLimits {
  readonly sizeBytes: bigint;
  /** The smallest piece that it reads and writes. No filesystem on it may have smaller sectors. */
  readonly sectorBytes: number;
}

export function limitsOfDevice(device: Descriptor): DeviceLimits {
  const sector = Buffer.alloc(4);
  ioctlNow(device, BLKSSZGET, sector);
  return { sizeBytes: sizeOfDevice(device), sectorBytes: sector.readInt32LE() };
}

/**
 * Opens a block device exclusively, so that nobody mounts or formats it meanwhile (open(2), O_EXCL without O_CREAT). A
 * mounted filesystem, a volume manager or a program that formats may have it already. A program that ends gives the
 * device up a moment later.
 * @returns undefined if somebody has it exclusively
 */
export function openDeviceAlone(queue: DiskQueue, path: string): Promise<Descriptor | undefined> {
  return openAlone(queue, path, { flags: constants.O_RDWR, pausesMs: [1, 10, 100, 1000] });
}

/** Whether somebody has a block device exclusively. It is not opened for writing: udev would look at it anew after that. */
export async function isHeldExclusively(queue: DiskQueue, path: string): Promise<boolean> {
  const flags = constants.O_RDONLY | constants.O_NONBLOCK;
  await using alone = await openAlone(queue, path, { flags, pausesMs: [1, 10, 100] });
  return alone === undefined;
}

interface Patience {
  readonly flags: number;
  /** Before each further try. */
  readonly pausesMs: readonly number[];
}

async function openAlone(
  queue: DiskQueue,
  path: string,
  { flags, pausesMs }: Patience,
): Promise<Descriptor | undefined> {
  for (const pauseMs of [0, ...pausesMs]) {
    if (pauseMs > 0) await delay(pauseMs);
    try {
      return await openFile(queue, path, flags | constants.O_EXCL);
    } catch (error) {
      if (!isErrno(error, 'EBUSY')) throw error;
    }
  }
  return undefined;
}
