import { readdirSync, readFileSync, realpathSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import type { DiskQueue } from '../call/disk-queue.ts';
import { ignoreMissing, isErrno } from '../call/errno.ts';

/** Names in a directory of sysfs, which lies in memory; none if it is not there. */
export function sysfsNames(directory: string): readonly string[] {
  try {
    return readdirSync(directory);
  } catch (error) {
    return ignoreMissing(error) ?? [];
  }
}

/** Text of an attribute, in letters of one byte; undefined: it is not there, or its object went while it was read. */
export function sysfsText(path: string): string | undefined {
  try {
    return readFileSync(path, 'latin1').trim();
  } catch (error) {
    return nothingIfGone(error);
  }
}

/** The same behind a queue, for attributes that a driver of the kernel may ask a disk for. undefined also: it is empty. */
export async function readSysfs(
  queue: DiskQueue,
  path: string,
  encoding: 'latin1' | 'utf8' = 'latin1',
): Promise<string | undefined> {
  const text = (await queue.run(() => readFile(path, encoding)).catch(nothingIfGone))?.trim();
  return text === '' ? undefined : text;
}

/**
 * Not every object has every attribute, and one that is pulled has none. EINVAL is device-mapper's answer for a device that is
 * being removed, ENOTCONN that of iSCSI without a connection.
 */
export function nothingIfGone(error: unknown): undefined {
  if (isErrno(error, 'ENOENT', 'ENOTDIR', 'ENXIO', 'ENODEV', 'EINVAL', 'ENOTSUP', 'ENOTCONN', 'EIO')) return undefined;
  throw error;
}

/** The path that a link of sysfs leads to; undefined: it is not there. */
export function sysfsTarget(path: string): string | undefined {
  try {
    return realpathSync(path);
  } catch (error) {
    return ignoreMissing(error);
  }
}
