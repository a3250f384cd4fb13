import { fileURLToPath } from 'node:url';
import { buildSync } from 'esbuild';

const here = fileURLToPath(new URL('.', import.meta.url));
const programs = ['crash-in-guest', 'killed-driver', 'pool-in-guest', 'processes-in-guest'];

/**
 * Makes few files of JavaScript of what runs in the virtual machine: to read hundreds there, and to take the types away,
 * takes each start of a program many seconds.
 * @returns their directory, below the project as their sources are
 */
export function bundleForGuest(): string {
  const outdir = fileURLToPath(new URL('../../../.cache/vm/lvm/', import.meta.url));
  buildSync({
    entryPoints: programs.map((name) => `${here}${name}.ts`),
    outdir,
    outExtension: { '.js': '.mjs' },
    bundle: true,
    splitting: true,
    platform: 'node',
    format: 'esm',
    external: ['koffi'],
    banner: {
      js: "import { createRequire as forBundled } from 'node:module'; const require = forBundled(import.meta.url);",
    },
    logLevel: 'warning',
  });
  return outdir;
}
