import { stat } from 'node:fs/promises';
import { release } from 'node:os';
import type { DeviceMapper } from '../../../../kernel/block/device-mapper.ts';
import type { DiskQueue } from '../../../../kernel/call/disk-queue.ts';

/**
 * LVM has modprobe load what it needs of the kernel, and says that there is no such target where that cannot: in a container
 * there are no modules. There the kernel is asked, which loads them as the node has them.
 */
export async function loadTargets(queue: DiskQueue, mapper: DeviceMapper, types: readonly string[]): Promise<void> {
  const hasModules = await queue
    .run(() => stat(`/lib/modules/${release()}`))
    .then(
      () => true,
      () => false,
    );
  // LVM has the better message for a target that the kernel does not have.
  if (!hasModules) for (const each of types) await mapper.knows(queue, each);
}
