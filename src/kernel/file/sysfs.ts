import { readdirSync, readFileSync, realpathSync } from 'node:fs';
import { ignoreMissing, isErrno } from '../call/errno.ts';

/** Names in a directory of sysfs, which lies in memory; none if it is not there. */
export function sysfsNames(directory: string): readonly string[] {
  try {
    return readdirSync(directory);
  } catch (error) {
    return ignoreMissing(error) ?? [];
  }
}

/** Text of an attribute; undefined: it is not there, or its object went while it was read. */
export function sysfsText(path: string): string | undefined {
  try {
    return readFileSync(path, 'latin1').trim();
  } catch (error) {
    // EINVAL is device-mapper's answer for a device that is being removed, ENOTCONN that of iSCSI without a connection.
    if (isErrno(error, 'ENOENT', 'ENOTDIR', 'ENXIO', 'ENODEV', 'EINVAL', 'ENOTCONN')) return undefined;
    throw error;
  }
}

/** The path that a link of sysfs leads to; undefined: it is not there. */
export function sysfsTarget(path: string): string | undefined {
  try {
    return realpathSync(path);
  } catch (error) {
    return ignoreMissing(error);
  }
}
