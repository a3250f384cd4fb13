import { access, constants } from 'node:fs/promises';
import { delimiter, join } from 'node:path';

/** A program the driver runs, and the Debian package that brings it. */
export interface Tool {
  readonly program: string;
  readonly debianPackage: string;
}

export const tools: readonly Tool[] = [
  { program: 'mkfs.ext4', debianPackage: 'e2fsprogs' },
  { program: 'e2fsck', debianPackage: 'e2fsprogs' },
  { program: 'resize2fs', debianPackage: 'e2fsprogs' },
  { program: 'mkfs.xfs', debianPackage: 'xfsprogs' },
  { program: 'mkfs.btrfs', debianPackage: 'btrfs-progs' },
];

/** The tools that no directory of `searchPath` (the value of PATH) has. Reads directories only; runs nothing. */
export async function missingTools(searchPath: string): Promise<Tool[]> {
  const found = await Promise.all(tools.map((tool) => isOnPath(tool.program, searchPath)));
  return tools.filter((_, index) => !found[index]);
}

async function isOnPath(program: string, searchPath: string): Promise<boolean> {
  for (const directory of searchPath.split(delimiter)) {
    try {
      await access(join(directory, program), constants.X_OK);
      return true;
    } catch {
      // Not here: the next directory may have it.
    }
  }
  return false;
}
