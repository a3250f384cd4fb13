import { existsSync } from 'node:fs';
import { basename } from 'node:path';
import { type FilesystemType, filesystemTypes } from '../../volume/filesystem.ts';
import { kernelNameOf } from '../block/device-node.ts';
import type { DeviceNumber } from '../device.ts';
import { sysfsNames } from '../file/sysfs.ts';

/**
 * Answers if the filesystem on a device is mounted in any mount namespace, or unmounted but still in use. The kernel
 * shows each such filesystem in sysfs, which lies in memory (Documentation/ABI/testing/sysfs-fs-ext4, sysfs-fs-xfs;
 * btrfs has a directory for each filesystem, with links to its devices).
 */
export function isMountedAnywhere(fsType: FilesystemType, devicePath: string): boolean {
  const name = basename(devicePath);
  if (fsType !== 'btrfs') return existsSync(`/sys/fs/${fsType}/${name}`);
  return sysfsNames('/sys/fs/btrfs').some((filesystem) => existsSync(`/sys/fs/btrfs/${filesystem}/devices/${name}`));
}

/** The type of the filesystem on a device that the kernel has in use, mounted or not; undefined: it has none. */
export function liveFilesystem(devicePath: string): FilesystemType | undefined {
  return filesystemTypes.find((fsType) => isMountedAnywhere(fsType, devicePath));
}

/** The same by the number of the device, which may be gone. */
export function liveFilesystemOn(device: DeviceNumber): FilesystemType | undefined {
  const name = kernelNameOf(device);
  return name === undefined ? undefined : liveFilesystem(name);
}
