import { setTimeout as delay } from 'node:timers/promises';
import { newXfsUuid } from '../../command/identity.ts';
import { CommandError } from '../../command/run.ts';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { mountBriefly, type PrivateImage, withDevice } from './brief-mount.ts';
import { newBtrfsUuid } from './btrfs-identity.ts';

/**
 * Gives a cloned filesystem a UUID of its own: XFS and btrfs refuse to be mounted beside another one with the same.
 * ext4 does not mind, and keeps its UUID.
 */
export async function giveNewIdentity(queue: DiskQueue, image: PrivateImage): Promise<void> {
  switch (image.fsType) {
    case 'ext4':
      return;
    case 'btrfs':
      // A freeze and an unmount both end with a commit; a power cut leaves a log. A device that is read-only, as a clone's
      // may be, could not replay it.
      if (await newBtrfsUuid(queue, image.path))
        await withDevice(queue, image, (path) => mountBriefly(queue, 'btrfs', path));
      return;
    case 'xfs':
      return withDevice(queue, image, (devicePath) => identifyXfs(queue, devicePath));
  }
}

async function identifyXfs(queue: DiskQueue, devicePath: string): Promise<void> {
  try {
    await newXfsUuid(devicePath);
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    // Cut from a mounted filesystem its log is not empty: mounting replays it, unmounting leaves it empty.
    await mountBriefly(queue, 'xfs', devicePath, [['nouuid']]);
    await patiently(() => newXfsUuid(devicePath));
  }
}

/** A program that is just being started has our descriptors too, that of the mount as well, until it executes. */
async function patiently(work: () => Promise<void>): Promise<void> {
  for (const pauseMs of [1, 10, 100, 1000]) {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof CommandError)) throw error;
      await delay(pauseMs);
    }
  }
  await work();
}
