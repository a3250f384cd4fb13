import { readFile } from 'node:fs/promises';
import { release } from 'node:os';

/** A container has none of its own: there it is the node's that the kernel loads, if its processes are seen. */
const roots = ['', '/proc/1/root'];

/** The paths of the modules that the kernel can load or has built in, in lines (depmod(8)). */
export async function knownModules(): Promise<string> {
  const paths = roots.flatMap((root) =>
    ['modules.dep', 'modules.builtin'].map((name) => `${root}/lib/modules/${release()}/${name}`),
  );
  return (await Promise.all(paths.map((path) => readFile(path, 'utf8').catch(() => '')))).join('\n');
}
