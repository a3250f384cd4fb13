import { devicePathOf } from '../../../../kernel/block/device-node.ts';
import type { DiskQueue } from '../../../../kernel/call/disk-queue.ts';
import { errnoName } from '../../../../kernel/call/errno.ts';
import type { DeviceNumber } from '../../../../kernel/device.ts';
import { openDirect, readDirect } from '../../../../kernel/file/direct.ts';
import type { HealthWatch } from '../../../pool.ts';

/** One that hangs takes a worker thread until it answers (`src/server/threads.ts` counts them). */
export const disksAskedAtOnce = 2;

/** A queue for `askDisks`. The pool does not hear of its failures: a disk of the group that is sick is no fault of the pool. */
export function asksQueue(queue: DiskQueue): DiskQueue {
  const asks = queue.beside('disks', disksAskedAtOnce);
  asks.onFailure = undefined;
  return asks;
}

const askedBytes = 4096;

export interface AskedDisk {
  readonly path: string;
  readonly device: DeviceNumber;
}

/**
 * Waits for an answer of each disk, past the page cache. An error is one: a disk that is sick, or gone, is no fault of the pool, and
 * the others go on.
 * @param queue a separate queue with `disksAskedAtOnce` places
 */
export async function askDisks(
  queue: DiskQueue,
  disks: readonly AskedDisk[],
  watch: HealthWatch,
  ask: (queue: DiskQueue, device: DeviceNumber) => Promise<void> = askDisk,
): Promise<void> {
  const left = [...disks];
  async function askOnes(): Promise<void> {
    for (let disk = left.shift(); disk !== undefined; disk = left.shift()) {
      const answered = watch.waitsFor(`its disk ${disk.path}`);
      await ask(queue, disk.device).catch(passOverKernelError);
      answered();
    }
  }
  await Promise.all(Array.from({ length: disksAskedAtOnce }, askOnes));
}

async function askDisk(queue: DiskQueue, device: DeviceNumber): Promise<void> {
  await using disk = await openDirect(queue, await devicePathOf(queue, device));
  await readDirect(queue, disk, { lengthBytes: askedBytes, offsetBytes: 0n });
}

function passOverKernelError(error: unknown): void {
  if (errnoName(error) === undefined) throw error;
}
