import type { DiskQueue } from '../kernel/call/disk-queue.ts';
import { readMountTable } from '../kernel/mount/mount-table.ts';
import { mountsOf } from './attached-mounts.ts';
import type { VolumeAccess } from './node-side.ts';

export type Detachable = Pick<VolumeAccess, 'attached' | 'detach'>;

/**
 * Detaches devices of a volume that are not visible anywhere any more. A crash may have left one between its last unmount and
 * its detach, and so may a program that had it open at that moment, e.g. udev.
 */
export async function detachUnseen(queue: DiskQueue, volume: Detachable): Promise<void> {
  // A mapper may go automatically at this very moment, and leave the device that it was over.
  for (let round = 0; round < 2; round++) {
    const attached = await volume.attached();
    if (attached.length === 0) return;
    const table = await readMountTable(queue);
    for (const each of attached) {
      if (!table.some(await mountsOf(queue, [each], table))) await volume.detach(each);
    }
  }
}
