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

/** The size of a block device. */
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

/** Answers if an open device refuses writes. The kernel has this mark in memory. */
export function refusesWrites(device: Descriptor): boolean {
  const flag = Buffer.alloc(4);
  ioctlNow(device, BLKROGET, flag);
  return flag.readInt32LE() !== 0;
}

/**
 * Makes a device refuse or accept writes from all its present and future users. The mark belongs to the device's
 * number, so it outlives whatever is attached there.
 */
export function setRefusesWrites(device: Descriptor, refuses: boolean): void {
  const flag = Buffer.alloc(4);
  flag.writeInt32LE(refuses ? 1 : 0);
  ioctlNow(device, BLKROSET, flag);
}

/**
 * The number that the kernel gave the disk when it appeared, and gives to no other disk until the next boot; for a
 * partition, the number of its disk. undefined: this kernel has none (before Linux 5.15).
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

/** Writes back and drops the cached blocks of a device: the next read comes from the disk. */
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
 * Opens a block device exclusively, so that no program mounts or formats it meanwhile (open(2), O_EXCL without
 * O_CREAT). A mounted filesystem, a volume manager or a program that formats may have it already. A program that ends
 * releases the device a moment later.
 * @returns undefined if another user has it exclusively
 */
export function openDeviceAlone(queue: DiskQueue, path: string): Promise<Descriptor | undefined> {
  return openAlone(queue, path, { flags: constants.O_RDWR, pausesMs: [1, 10, 100, 1000] });
}

/**
 * Answers if a block device is open exclusively. Opens it only for reading: after a writer closes it, udev would
 * examine the device again.
 */
export async function isHeldExclusively(queue: DiskQueue, path: string): Promise<boolean> {
  const flags = constants.O_RDONLY | constants.O_NONBLOCK;
  await using alone = await openAlone(queue, path, { flags, pausesMs: [1, 10, 100] });
  return alone === undefined;
}

interface Patience {
  readonly flags: number;
  /** Pauses before further tries. */
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
