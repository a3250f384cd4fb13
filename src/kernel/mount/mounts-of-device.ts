import { constants, statSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import { kernelNameOf } from '../block/device-node.ts';
import { openFile } from '../call/descriptor.ts';
import type { DiskQueue } from '../call/disk-queue.ts';
import { type IoctlRequest, ioctl } from '../call/ioctl.ts';
import { type DeviceNumber, deviceNumber, sameDevice } from '../device.ts';
import { statusOf } from '../file/path.ts';
import { sysfsNames } from '../file/sysfs.ts';
import type { Mount } from './mount-table.ts';

const BTRFS_IOC_FS_INFO: IoctlRequest = { name: 'BTRFS_IOC_FS_INFO', number: 0x8400941f };

/** Answers if a mount shows the filesystem on a block device; undefined: uncertain. */
export type ShowsDevice = (mount: Pick<Mount, 'device' | 'fsType'>, device: DeviceNumber) => boolean | undefined;

export interface DeviceSearch {
  /** The only devices of interest; undefined: any. */
  readonly devices?: readonly DeviceNumber[];
  /** false: sends no request to a filesystem, as it may be dead. */
  readonly mayAsk?: boolean;
}

/**
 * Finds the mounts of a table that show the filesystem on a device. A mount of btrfs has a separate device number and
 * names one of its devices by a path. Any program that scans that device by another path changes the name (udev does
 * that for device-mapper), and a path may lead to another device by now. So a name counts only by the device that it
 * leads to, and the filesystem itself is queried where that leaves a doubt.
 */
export async function mountsOfDevices(
  queue: DiskQueue,
  table: readonly Mount[],
  { devices, mayAsk = true }: DeviceSearch = {},
): Promise<ShowsDevice> {
  const mounts = table.filter(isBtrfs);
  const live = mounts.length === 0 || devices?.length === 0 ? new Map<string, string>() : liveBtrfs();
  const names = new Map(devices?.map((device) => [`${device.major}:${device.minor}`, kernelNameOf(device)]));
  const filesystemOn = (device: DeviceNumber) =>
    live.get(names.get(`${device.major}:${device.minor}`) ?? kernelNameOf(device) ?? '');
  if (!(devices?.some(filesystemOn) ?? live.size > 0)) return byNumber;
  const shown = await filesystemsShown(queue, mounts, live, mayAsk);
  const found = new Set(shown.values());
  return (mount, device) => {
    if (!isBtrfs(mount)) return sameDevice(mount.device, device);
    const filesystem = filesystemOn(device);
    if (filesystem === undefined) return false;
    const known = shown.get(mount.device.minor);
    // All mounts of a filesystem have one number, so a filesystem that was found has no others.
    return known === undefined && !found.has(filesystem) ? undefined : known === filesystem;
  };
}

/** True if a mount of the table shows one of the devices, or may show it. */
export async function mayShowAny(
  queue: DiskQueue,
  table: readonly Mount[],
  search: DeviceSearch & Required<Pick<DeviceSearch, 'devices'>>,
): Promise<boolean> {
  const shows = await mountsOfDevices(queue, table, search);
  return table.some((mount) => search.devices.some((device) => shows(mount, device) !== false));
}

/** The block device of a mounted btrfs, one of several; undefined: it cannot be known. */
export async function deviceOfBtrfs(queue: DiskQueue, mount: Mount): Promise<DeviceNumber | undefined> {
  const live = liveBtrfs();
  const named = await deviceAt(queue, mount.source);
  if (named !== undefined && live.has(kernelNameOf(named) ?? '')) return named;
  const filesystem = await askFilesystem(queue, [mount]);
  const member = [...live].find(([, id]) => id === filesystem);
  return member && (await deviceAt(queue, `/dev/${member[0]}`));
}

export function isBtrfs({ device, fsType }: Pick<Mount, 'device' | 'fsType'>): boolean {
  return device.major === 0 && fsType === 'btrfs';
}

const byNumber: ShowsDevice = (mount, device) => !isBtrfs(mount) && sameDevice(mount.device, device);

/** The filesystem that each mount shows, by the mount's device number. Unknown ones are missing. */
async function filesystemsShown(
  queue: DiskQueue,
  mounts: readonly Mount[],
  live: ReadonlyMap<string, string>,
  mayAsk: boolean,
): Promise<ReadonlyMap<number, string>> {
  const groups = Map.groupBy(mounts, ({ device }) => device.minor);
  const named = new Map<number, string>();
  const counts = new Map<string, number>();
  for (const [number, [mount]] of groups) {
    const device = mount && (await deviceAt(queue, mount.source));
    const filesystem = device && live.get(kernelNameOf(device) ?? '');
    if (filesystem === undefined) continue;
    named.set(number, filesystem);
    counts.set(filesystem, (counts.get(filesystem) ?? 0) + 1);
  }
  const shown = new Map<number, string>();
  for (const [number, group] of groups) {
    const filesystem = named.get(number);
    const isNamed = filesystem !== undefined && counts.get(filesystem) === 1;
    const known = isNamed ? filesystem : mayAsk && (await askFilesystem(queue, group));
    if (known) shown.set(number, known);
  }
  return shown;
}

/** Queries the filesystem through one of its mounts. On a worker: the kernel may wait for its disk. */
async function askFilesystem(queue: DiskQueue, mounts: readonly Mount[]): Promise<string | undefined> {
  for (const mount of mounts) {
    try {
      const flags = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NONBLOCK;
      await using directory = await openFile(queue, mount.target, flags);
      if ((await statusOf(queue, directory)).mountId !== mount.id) continue;
      // struct btrfs_ioctl_fs_info_args
      const information = Buffer.alloc(1024);
      await ioctl(queue, directory, BTRFS_IOC_FS_INFO, information);
      return information.toString('hex', 16, 32).replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
    } catch (error) {
      if (queue.closedFor !== undefined) throw error;
    }
  }
  return undefined;
}

/** The ids of the btrfs filesystems that the kernel has in use, by the names of their devices. Sysfs lies in memory. */
function liveBtrfs(): ReadonlyMap<string, string> {
  const root = '/sys/fs/btrfs';
  const live = new Map<string, string>();
  // Its directory `features` has no devices.
  for (const id of sysfsNames(root)) for (const name of sysfsNames(`${root}/${id}/devices`)) live.set(name, id);
  return live;
}

/** The block device that a path leads to. A name in /dev lies in memory. */
async function deviceAt(queue: DiskQueue, path: string): Promise<DeviceNumber | undefined> {
  if (path.startsWith('/dev/') && !path.includes('/../')) {
    const status = statSync(path, { bigint: true, throwIfNoEntry: false });
    return status?.isBlockDevice() ? deviceNumber(status.rdev) : undefined;
  }
  const status = await queue.run(() => stat(path, { bigint: true })).catch(() => undefined);
  return status?.isBlockDevice() ? deviceNumber(status.rdev) : undefined;
}
