import { stat } from 'node:fs/promises';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { isErrno } from '../../../kernel/call/errno.ts';

/** A disk that was attached for another CSI driver or by an operator is blank until that one begins to use it. */
const othersFirstMs = 60_000;

export interface DiskAge {
  /** Time for which it has been seen unchanged. */
  readonly seenMs: number;
  /** Time for which the node has had its device, by the clock; undefined: unknown. */
  readonly deviceMs: number | undefined;
}

/** True if the program that attached a disk has had the time to use it. The clock may have been set meanwhile. */
export function isLongThere({ deviceMs, seenMs }: DiskAge): boolean {
  return seenMs >= othersFirstMs || (deviceMs !== undefined && deviceMs >= othersFirstMs);
}

/** Since devtmpfs has the device: it is made when the kernel finds the disk. */
export async function deviceAgeMs(queue: DiskQueue, devicePath: string): Promise<number | undefined> {
  try {
    const { ctimeMs } = await queue.run(() => stat(devicePath));
    return Date.now() - ctimeMs;
  } catch (error) {
    if (isErrno(error, 'ENOENT')) return undefined;
    throw error;
  }
}
