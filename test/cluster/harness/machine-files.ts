import { copyFileSync, lstatSync, mkdirSync, readlinkSync, realpathSync, symlinkSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { runToEnd } from './command.ts';

/** The path of a program that is in PATH. */
export async function programPath(name: string): Promise<string> {
  return (await runToEnd('sh', ['-c', 'command -v "$0"', name])).trim();
}

/**
 * Copies programs and libraries of this machine into a root directory, with the libraries that they need, where they
 * are here; a program that is in no usual place here is found as `target` there.
 */
export async function copyPrograms(files: readonly string[], root: string, target?: string): Promise<void> {
  for (const file of files) {
    copy(file, root, target ?? file);
    for (const library of await librariesOf(file)) copy(library, root, library);
  }
}

async function librariesOf(program: string): Promise<string[]> {
  // ldd(1) fails on what is linked statically and on scripts, which need none.
  const lines = (await runToEnd('ldd', [program]).catch(() => '')).split('\n');
  return lines.flatMap((line) => /(?:=> |^\s+)(\/\S+)/.exec(line)?.[1] ?? []);
}

/** Links become files, except those at the top: Debian's /bin, /lib and so on are links to those in /usr. */
function copy(source: string, root: string, target: string): void {
  const top = `/${target.split('/')[1]}`;
  if (lstatSync(top).isSymbolicLink()) makeLink(readlinkSync(top), join(root, top), join(root, realpathSync(top)));
  mkdirSync(join(root, dirname(target)), { recursive: true });
  copyFileSync(realpathSync(source), join(root, target));
}

function makeLink(to: string, path: string, directory: string): void {
  mkdirSync(directory, { recursive: true });
  if (lstatSync(path, { throwIfNoEntry: false }) === undefined) symlinkSync(to, path);
}
