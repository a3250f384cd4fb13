import { chmodSync, copyFileSync, mkdirSync, readdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { buildBundle } from '../../scripts/build.ts';
import { output } from './program.ts';

/** Makes the layer with the Node of the lock file. Yields the files that are linked with libraries of the system. */
export function addNode(projectRoot: string, layer: string): string[] {
  const brought = join(projectRoot, 'node_modules', 'node');
  const program = join(layer, 'usr/bin/node');
  mkdirSync(join(layer, 'usr/bin'), { recursive: true });
  // Without the symbols that only a debugger reads: a quarter of it.
  output('strip', ['--strip-all', '-o', program, join(brought, 'bin', 'node')]);
  chmodSync(program, 0o755);
  const release = readdirSync(join(brought, 'node_modules')).find((name) => name.startsWith('node-linux-'));
  if (release === undefined) throw new Error('the npm package node has no binary for Linux here');
  const documents = join(layer, 'usr/share/doc/node');
  mkdirSync(documents, { recursive: true });
  copyFileSync(join(brought, 'node_modules', release, 'LICENSE'), join(documents, 'copyright'));
  return [program];
}

/** Makes the layer with the bundle. Yields the files that are linked with libraries of the system. */
export async function addProgram(layer: string): Promise<string[]> {
  const directory = join(layer, 'usr/lib/holdfast');
  await buildBundle(directory);
  mkdirSync(join(layer, 'usr/bin'), { recursive: true });
  symlinkSync('../lib/holdfast/holdfast.mjs', join(layer, 'usr/bin/holdfast'));
  const names = readdirSync(directory).filter((name) => name.endsWith('.node'));
  return names.map((name) => join(directory, name));
}

export const entrypoint = ['/usr/bin/node', '/usr/lib/holdfast/holdfast.mjs'];
