import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { readMountTable } from '../../kernel/mount/mount-table.ts';
import { mountsOf } from '../../pool/attached-mounts.ts';
import type { Pool } from '../../pool/pool.ts';
import { PoolVolume } from '../../pool/recorded-volumes.ts';
import type { VolumeId } from '../../volume/id.ts';
import { detachUnmounted } from '../detach.ts';

/** Removes a volume that is mounted nowhere in this mount namespace. @throws FailedPrecondition if it is in use */
export async function removeUnmounted(queue: DiskQueue, pool: Pool, id: VolumeId): Promise<void> {
  await detachUnmounted(queue, new PoolVolume(pool, id));
  await pool.remove(id);
}

/** True if anything of the volume is mounted in this mount namespace. */
export async function isSeenHere(queue: DiskQueue, pool: Pool, id: VolumeId): Promise<boolean> {
  const attached = await pool.attached(id);
  const table = await readMountTable(queue);
  return table.some(await mountsOf(queue, attached, table));
}
