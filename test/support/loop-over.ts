import { findLoops } from '../../src/kernel/block/loop-sysfs.ts';
import type { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import type { AttachedDevice } from '../../src/pool/pool.ts';

export type LoopSeen = AttachedDevice;

/** Loop devices that have a device, and not a file, below them. */
export async function attachedLoopOver(queue: DiskQueue, devicePath: string): Promise<LoopSeen[]> {
  const found = await findLoops(queue, (path) => path === devicePath);
  return found.map(({ device, devicePath: path, readonly }) => ({ device, devicePath: path, readonly }));
}
