import { chmodSync, copyFileSync, mkdirSync, readdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { buildBundle } from '../../scripts/build.ts';
import type { NpmPackage } from './npm.ts';
import { output } from './program.ts';

/** Makes the layer with Node. Yields the files that are linked with libraries of the system. */
export function addNode(node: NpmPackage, triplet: string, layer: string): string[] {
  const program = join(layer, 'usr/bin/node');
  mkdirSync(join(layer, 'usr/bin'), { recursive: true });
  // Without the symbols that only a debugger reads: a quarter of it.
  output(`${triplet}-strip`, ['--strip-all', '-o', program, join(node.directory, 'bin', 'node')]);
  chmodSync(program, 0o755);
  const documents = join(layer, 'usr/share/doc/node');
  mkdirSync(documents, { recursive: true });
  copyFileSync(join(node.directory, 'LICENSE'), join(documents, 'copyright'));
  return [program];
}

/** Makes the layer with the bundle. Yields the files that are linked with libraries of the system. */
export async function addProgram(koffi: NpmPackage, processor: string, layer: string): Promise<string[]> {
  const directory = join(layer, 'usr/lib/holdfast');
  await buildBundle(directory, [{ processor, file: join(koffi.directory, `linux_${processor}`, 'koffi.node') }]);
  mkdirSync(join(layer, 'usr/bin'), { recursive: true });
  symlinkSync('../lib/holdfast/holdfast.mjs', join(layer, 'usr/bin/holdfast'));
  const names = readdirSync(directory).filter((name) => name.endsWith('.node'));
  return names.map((name) => join(directory, name));
}

export const entrypoint = ['/usr/bin/node', '/usr/lib/holdfast/holdfast.mjs'];
