import { isHeldExclusively } from '../../kernel/block/block.ts';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { isErrno } from '../../kernel/call/errno.ts';

/** Answers if a program has the device for itself, or has it mounted. */
export async function isHeld(queue: DiskQueue, devicePath: string): Promise<boolean> {
  try {
    return await isHeldExclusively(queue, devicePath);
  } catch (error) {
    // It goes at this moment.
    if (isErrno(error, 'ENOENT', 'ENXIO', 'ENODEV')) return false;
    throw error;
  }
}
