import { readFile } from 'node:fs/promises';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { build, type Plugin } from 'esbuild';

/** What tests share looks for files of the project from where its source lies, also when it is part of a bundle. */
const ownPlaces: Plugin = {
  name: 'own places',
  setup: ({ onLoad }) =>
    onLoad({ filter: /\/test\/support\/[^/]*\.ts$/ }, async ({ path }) => {
      const source = await readFile(path, 'utf8');
      const url = JSON.stringify(pathToFileURL(path).href);
      return { contents: source.replaceAll('import.meta.url', url), loader: 'ts' };
    }),
};

/**
 * Makes few files of JavaScript of what runs in the virtual machine: to read hundreds there, and to take the types away,
 * takes each start of a program many seconds.
 * @param area a directory of test/vm
 * @returns the directory they lie in, as deep in the project as their sources
 */
export async function bundlePrograms(area: string, names: readonly string[]): Promise<string> {
  const sources = fileURLToPath(new URL(`../${area}/`, import.meta.url));
  const outdir = fileURLToPath(new URL(`../../../.cache/vm/${area}/`, import.meta.url));
  await build({
    entryPoints: names.map((name) => `${sources}${name}.ts`),
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
    plugins: [ownPlaces],
    logLevel: 'warning',
  });
  return outdir;
}
