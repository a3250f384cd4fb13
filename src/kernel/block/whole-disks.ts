import { existsSync, readdirSync, realpathSync } from 'node:fs';
import { basename, dirname } from 'node:path';
import { ignoreMissing } from '../call/errno.ts';
import type { DeviceNumber } from './device.ts';

/**
 * The names of the disks that a device lies on in the end: a partition on its disk, one of device-mapper or MD on all that it is
 * made of. By sysfs, which lies in memory. What is not there is by itself.
 */
export function wholeDisksOf({ major, minor }: DeviceNumber): string[] {
  const place = resolve(`/sys/dev/block/${major}:${minor}`);
  return place === undefined ? [`${major}:${minor}`] : [...new Set(disksAt(place))];
}

function disksAt(place: string): string[] {
  const whole = existsSync(`${place}/partition`) ? dirname(place) : place;
  const below = namesIn(`${whole}/slaves`).flatMap((name) => resolve(`/sys/class/block/${name}`) ?? []);
  return below.length === 0 ? [basename(whole)] : below.flatMap(disksAt);
}

function resolve(path: string): string | undefined {
  try {
    return realpathSync(path);
  } catch (error) {
    return ignoreMissing(error);
  }
}

function namesIn(directory: string): string[] {
  try {
    return readdirSync(directory);
  } catch (error) {
    return ignoreMissing(error) ?? [];
  }
}
