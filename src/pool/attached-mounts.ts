import type { DiskQueue } from '../kernel/call/disk-queue.ts';
import { ignoreMissing } from '../kernel/call/errno.ts';
import { sameDevice } from '../kernel/device.ts';
import { statusOf } from '../kernel/file/path.ts';
import { findRoot, showsDirectory } from '../kernel/mount/directory-root.ts';
import { isNodeOf, type Mount } from '../kernel/mount/mount-table.ts';
import { mountsOfDevices } from '../kernel/mount/mounts-of-device.ts';
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
      return mountsOfDevice(queue, attached, table);
    case 'directory': {
      const directory = findRoot(table, attached.path);
      return (mount) =>
        directory !== undefined && showsDirectory(mount, directory) && attached.keptAt?.includes(mount.target) !== true;
    }
    case 'mountable':
      // The kernel calls NFS 3 nfs, and NFS 4 nfs4: which one it is, the options of a mount say.
      return ({ fsType, source }) =>
        fsType.replace(/^nfs4$/, 'nfs') === attached.fsType.replace(/^nfs4$/, 'nfs') && source === attached.source;
  }
}

/** A filesystem on the device, or what may be it, or the device's node on a file. */
async function mountsOfDevice(
  queue: DiskQueue,
  { device, devicePath }: AttachedDevice,
  table: readonly Mount[],
): Promise<ShowsIt> {
  const shows = await mountsOfDevices(queue, table, { devices: [device] });
  // Gone with its last user since it was found: then nothing shows its node.
  const filesystemOfNode = (await statusOf(queue, devicePath).catch(ignoreMissing))?.device;
  return (mount) =>
    shows(mount, device) !== false ||
    (filesystemOfNode !== undefined && sameDevice(mount.device, filesystemOfNode) && isNodeOf(mount, devicePath));
}

/** The search for the holders of a volume that is attached in these ways. */
export function soughtOf(attached: readonly Attached[]): Sought {
  return {
    devices: attached.filter((each) => each.kind === 'device'),
    directories: attached.filter((each) => each.kind === 'directory').map(({ path }) => path),
    filesystems: attached.filter((each) => each.kind === 'mountable'),
  };
}
