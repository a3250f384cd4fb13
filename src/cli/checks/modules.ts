import { readFile } from 'node:fs/promises';
import { release } from 'node:os';

/** A container has no modules: the kernel loads the node's, which are seen if the node's processes are. */
const roots = ['', '/proc/1/root'];

/** The paths of the modules that the kernel can load or has built in, in lines (depmod(8)). */
export async function knownModules(): Promise<string> {
  const paths = roots.flatMap((root) =>
    ['modules.dep', 'modules.builtin'].map((name) => `${root}/lib/modules/${release()}/${name}`),
  );
  return (await Promise.all(paths.map((path) => readFile(path, 'utf8').catch(() => '')))).join('\n');
}
