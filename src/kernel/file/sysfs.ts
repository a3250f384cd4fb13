import { readdirSync } from 'node:fs';
import { ignoreMissing } from '../call/errno.ts';

/** Names in a directory of sysfs, which lies in memory; none if it is not there. */
export function sysfsNames(directory: string): readonly string[] {
  try {
    return readdirSync(directory);
  } catch (error) {
    return ignoreMissing(error) ?? [];
  }
}
