import type { DiskQueue } from '../kernel/call/disk-queue.ts';
import { detachUnseen } from '../pool/detach-unseen.ts';
import type { VolumeAccess } from '../pool/node-side.ts';

/**
 * For a volume whose filesystem was mounted, or was being mounted: most devices go automatically then, unless it is frozen.
 * @param livesOn false: the kernel no longer has the filesystem, so it cannot be frozen
 */
export async function detachUnmounted(queue: DiskQueue, volume: VolumeAccess, livesOn = true): Promise<void> {
  if (livesOn) await volume.endUnseenFreeze();
  if (volume.traits.detaching === 'explicit') await detachUnseen(queue, volume);
}
