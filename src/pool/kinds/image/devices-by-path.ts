import { diskFaultOf } from '../../../kernel/block/disk-fault.ts';
import { detachLoop, type LoopStatus } from '../../../kernel/block/loop.ts';
import { findLoops, loopNumber } from '../../../kernel/block/loop-sysfs.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import type { DeviceNumber } from '../../../kernel/device.ts';
import { isNodeOf, readMountTable } from '../../../kernel/mount/mount-table.ts';
import { type VolumeId, volumeIdInPath } from '../../../volume/id.ts';
import { step } from '../../../volume/step.ts';
import type { Attacher } from '../../backend.ts';
import { imageByName, volumeByPath } from './by-name.ts';

/*
 * The devices of volumes by the kernel's knowledge alone, for a pool whose disk cannot be asked: enough to undo
 * mounts, not enough to attach anything.
 */

/** For the time in which the pool's own queue is closed. */
export function devicesByPath(closed: DiskQueue): Attacher['rescue'] {
  return {
    volumeSeen: async (seen) => imageByName(seen),
    async attached(id) {
      const found = await closed.rescue((rescue) => findLoops(rescue, (path) => volumeIdInPath(path) === id));
      return found.map((device) => ({ kind: 'device', ...device }));
    },
    async detach(attached) {
      const id = attached.kind === 'device' ? volumeByPath(attached.device) : undefined;
      if (attached.kind === 'device' && id !== undefined) await detachByPath(closed, attached.device, id);
    },
  };
}

/** Detaches a device, if it still shows this volume. One that takes too long goes when the pool is opened again. */
async function detachByPath(closed: DiskQueue, device: DeviceNumber, id: VolumeId): Promise<void> {
  const number = loopNumber(device);
  if (number === undefined) return;
  const isOurs = async () => volumeByPath(device) === id;
  try {
    await closed.rescue((rescue) => step('detach/device', () => detachLoop(rescue, number, isOurs)));
  } catch (error) {
    if (error !== closed.closedFor) throw error;
  }
}

/**
 * Detaches persistent devices that are not visible anywhere and whose image lies on any dead filesystem: that cannot be
 * unmounted as long as they are there, and they are of no use.
 */
export async function detachFromDead(queue: DiskQueue): Promise<void> {
  const persistent = (await findLoops(queue, (path) => volumeIdInPath(path) !== undefined)).filter(
    (each) => !each.autoclear,
  );
  if (persistent.length === 0) return;
  const table = await readMountTable(queue);
  for (const { device, devicePath } of persistent) {
    const number = loopNumber(device);
    if (number === undefined || table.some((mount) => isNodeOf(mount, devicePath))) continue;
    await step('detach/device', () => detachLoop(queue, number, isDead));
  }
}

/** The kernel asks the image's filesystem, which answers with an error. */
async function isDead(read: () => Promise<LoopStatus>): Promise<boolean> {
  try {
    await read();
    return false;
  } catch (error) {
    if (diskFaultOf(error) === undefined) throw error;
    return true;
  }
}
