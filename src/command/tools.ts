import { access, constants, stat } from 'node:fs/promises';
import { delimiter, join } from 'node:path';

/** A program that the driver runs, and the Debian package that has it. */
export interface Tool {
  readonly program: string;
  readonly debianPackage: string;
}

/** The tool that only encrypted volumes need. */
export const encryptionTool: Tool = { program: 'cryptsetup', debianPackage: 'cryptsetup-bin' };

export const tools: readonly Tool[] = [
  { program: 'mkfs.ext4', debianPackage: 'e2fsprogs' },
  { program: 'e2fsck', debianPackage: 'e2fsprogs' },
  { program: 'resize2fs', debianPackage: 'e2fsprogs' },
  { program: 'mkfs.xfs', debianPackage: 'xfsprogs' },
  { program: 'mkfs.btrfs', debianPackage: 'btrfs-progs' },
];

/** The tools for filling an inline volume from a repository. */
export const inlineTools: readonly Tool[] = [{ program: 'git', debianPackage: 'git' }];

/** The tools that are in no directory of `searchPath` (the value of PATH). Only reads directories; runs nothing. */
export async function missingTools(searchPath: string, wanted: readonly Tool[] = tools): Promise<Tool[]> {
  const found = await Promise.all(wanted.map((tool) => isOnPath(tool.program, searchPath)));
  return wanted.filter((_, index) => !found[index]);
}

/** A text that changes when the program or its configuration file does. Runs nothing. */
export async function fingerprintOf(program: string): Promise<string> {
  // biome-ignore lint/style/noProcessEnv: PATH, by which programs are found when they run
  const directories = (process.env['PATH'] ?? '').split(delimiter);
  const paths = [...directories.map((directory) => join(directory, program)), ...settings];
  const found = await Promise.all(paths.map((path) => stat(path).catch(() => undefined)));
  return JSON.stringify(
    found.map((file) => (file === undefined ? 'none' : [file.dev, file.ino, file.size, file.mtimeMs, file.ctimeMs])),
  );
}

/** mke2fs.conf(5): the defaults of mkfs.ext4. */
const settings = ['/etc/mke2fs.conf'];

async function isOnPath(program: string, searchPath: string): Promise<boolean> {
  for (const directory of searchPath.split(delimiter)) {
    try {
      await access(join(directory, program), constants.X_OK);
      return true;
    } catch {
      // The next directory may have it.
    }
  }
  return false;
}
