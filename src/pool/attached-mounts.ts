import { sameDevice } from '../kernel/block/device.ts';
import type { DiskQueue } from '../kernel/call/disk-queue.ts';
import { ignoreMissing } from '../kernel/call/errno.ts';
import { statusOf } from '../kernel/file/path.ts';
import { findRoot, showsDirectory } from '../kernel/mount/directory-root.ts';
import { isNodeOf, type Mount } from '../kernel/mount/mount-table.ts';
import type { Sought } from '../kernel/process/holders.ts';
import type { Attached, AttachedDevice } from './pool.ts';

type ShowsIt = (mount: Mount) => boolean;

/** Tells the mounts of the table that show something of a volume that is attached in these ways. */
export async function mountsOf(
  queue: DiskQueue,
  attached: readonly Attached[],
  table: readonly Mount[],
): Promise<ShowsIt> {
  const tests = await Promise.all(attached.map((each) => mountsOfOne(queue, each, table)));
  return (mount) => tests.some((shows) => shows(mount));
}

async function mountsOfOne(queue: DiskQueue, attached: Attached, table: readonly Mount[]): Promise<ShowsIt> {
  switch (attached.kind) {
    case 'device':
      return mountsOfDevice(queue, attached);
    case 'directory': {
      const directory = findRoot(table, attached.path);
      return (mount) => directory !== undefined && showsDirectory(mount, directory);
    }
    case 'mountable':
      return ({ fsType, source }) => fsType === attached.fsType && source === attached.source;
  }
}

/** A filesystem on the device, or the device's node on a file. btrfs has a device number of its own (major 0). */
async function mountsOfDevice(queue: DiskQueue, { device, devicePath }: AttachedDevice): Promise<ShowsIt> {
  // Gone with its last user since it was found: then nothing shows its node.
  const filesystemOfNode = (await statusOf(queue, devicePath).catch(ignoreMissing))?.device;
  return (mount) =>
    sameDevice(mount.device, device) ||
    (mount.device.major === 0 && mount.source === devicePath) ||
    (filesystemOfNode !== undefined && sameDevice(mount.device, filesystemOfNode) && isNodeOf(mount, devicePath));
}

/** What to look for to find who keeps a volume in use that is attached in these ways. */
export function soughtOf(attached: readonly Attached[]): Sought {
  return {
    devices: attached.filter((each) => each.kind === 'device'),
    directories: attached.filter((each) => each.kind === 'directory').map(({ path }) => path),
    filesystems: attached.filter((each) => each.kind === 'mountable'),
  };
}
