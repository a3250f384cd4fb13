import type { DiskQueue } from '../kernel/call/disk-queue.ts';
import { detachUnseen } from '../pool/detach-unseen.ts';
import type { Pool } from '../pool/pool.ts';
import type { VolumeId } from '../volume/id.ts';

/** For a volume whose filesystem was mounted, or was to be: most devices go by themselves then, unless it is frozen. */
export async function detachUnmounted(queue: DiskQueue, pool: Pool, id: VolumeId): Promise<void> {
  await pool.endUnseenFreeze(id);
  if (pool.traits.detaching === 'explicit') await detachUnseen(queue, pool, id);
}
