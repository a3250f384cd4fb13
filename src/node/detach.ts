import type { DiskQueue } from '../kernel/call/disk-queue.ts';
import { readMountTable } from '../kernel/mount/mount-table.ts';
import { mountsOf } from '../pool/attached-mounts.ts';
import type { Pool } from '../pool/pool.ts';
import type { VolumeId } from '../volume/id.ts';

/**
 * Detaches devices of a volume that can be seen nowhere any more. A crash may have left one between its last unmount and
 * its detach; earlier versions made a second one for read-only targets.
 */
export async function detachUnseen(queue: DiskQueue, pool: Pool, id: VolumeId): Promise<void> {
  const attached = await pool.attached(id);
  if (attached.length === 0) return;
  const table = await readMountTable(queue);
  for (const each of attached) {
    if (!table.some(await mountsOf(queue, [each], table))) await pool.detach(each);
  }
}

/** The same for a volume whose filesystem was mounted, or was to be: most devices go by themselves then. */
export async function detachUnmounted(queue: DiskQueue, pool: Pool, id: VolumeId): Promise<void> {
  if (pool.traits.detaching === 'explicit') await detachUnseen(queue, pool, id);
}
