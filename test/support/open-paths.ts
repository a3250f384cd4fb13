import { readdirSync, readlinkSync } from 'node:fs';

/** The paths of the files that this process has open, a driver in it too; a path for each descriptor. */
export function openPaths(): string[] {
  return readdirSync('/proc/self/fd').flatMap((descriptor) => {
    try {
      return [readlinkSync(`/proc/self/fd/${descriptor}`)];
    } catch {
      // The descriptor that read the directory.
      return [];
    }
  });
}
