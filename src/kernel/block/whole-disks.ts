import { existsSync } from 'node:fs';
import { basename, dirname } from 'node:path';
import type { DeviceNumber } from '../device.ts';
import { sysfsNames, sysfsTarget } from '../file/sysfs.ts';

/**
 * The names of the disks that a device finally lies on: for a partition its disk, for device-mapper and MD all below.
 * Read from sysfs, which lies in memory. A device that sysfs does not have counts as a disk.
 */
export function wholeDisksOf({ major, minor }: DeviceNumber): string[] {
  const place = sysfsTarget(`/sys/dev/block/${major}:${minor}`);
  return place === undefined ? [`${major}:${minor}`] : [...new Set(disksAt(place))];
}

function disksAt(place: string): string[] {
  const whole = existsSync(`${place}/partition`) ? dirname(place) : place;
  const below = sysfsNames(`${whole}/slaves`).flatMap((name) => sysfsTarget(`/sys/class/block/${name}`) ?? []);
  return below.length === 0 ? [basename(whole)] : below.flatMap(disksAt);
}
