import { setTimeout as delay } from 'node:timers/promises';
import { openDeviceAlone } from '../../../kernel/block/block.ts';
import type { Descriptor } from '../../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { tryLock } from '../../../kernel/process/lock.ts';
import { FailedPrecondition, type HoldfastError } from '../../../volume/errors.ts';
import type { FoundDisk } from './found-disk.ts';

interface HoldingPlace {
  readonly poolName: string;
  readonly queue: DiskQueue;
  /** The caller holds the lock. */
  readonly isLocked?: boolean | undefined;
  /** The error if it is in use; left out: that of a pool. */
  readonly refusal?: ((path: string, reasons: readonly string[]) => HoldfastError) | undefined;
}

/**
 * Opens a disk for writing, exclusively. udev leaves alone a disk with this lock
 * (https://systemd.io/BLOCK_DEVICE_LOCKING).
 * @throws FailedPrecondition if it is in use
 */
export async function holdAlone(
  { isLocked, poolName, queue, refusal }: HoldingPlace,
  { devicePath, path }: FoundDisk,
): Promise<Descriptor> {
  const alone = await openDeviceAlone(queue, devicePath);
  if (alone !== undefined && (isLocked === true || (await lockWithRetries(queue, alone)))) return alone;
  await alone?.[Symbol.asyncDispose]();
  throw refusal?.(path, ['it is in use (see lsblk)']) ?? inUse(poolName, path);
}

export function inUse(poolName: string, path: string): FailedPrecondition {
  return new FailedPrecondition(
    `pool ${poolName}: ${path} is in use: it is mounted, part of a volume group or RAID, or being formatted (see lsblk). Name another disk, or end that.`,
  );
}

const lockPausesMs = [0, 1, 10, 100, 1000];

/** udev has it for a moment after the disk has appeared, or was written to. */
export async function lockWithRetries(queue: DiskQueue, device: Descriptor): Promise<boolean> {
  for (const pauseMs of lockPausesMs) {
    await delay(pauseMs);
    if (await tryLock(queue, device)) return true;
  }
  return false;
}
