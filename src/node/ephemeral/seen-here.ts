import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { readMountTable } from '../../kernel/mount/mount-table.ts';
import { mountsOf } from '../../pool/attached-mounts.ts';
import type { Pool } from '../../pool/pool.ts';
import type { VolumeId } from '../../volume/id.ts';

/** True if anything of the volume is mounted in this mount namespace. */
export async function isSeenHere(queue: DiskQueue, pool: Pool, id: VolumeId): Promise<boolean> {
  const attached = await pool.attached(id);
  const table = await readMountTable(queue);
  return table.some(await mountsOf(queue, attached, table));
}
