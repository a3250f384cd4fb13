import { chmod, copyFile, mkdir, mkdtemp, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build, type Plugin } from 'esbuild';
import { Usage } from './options.ts';
import { mendUsing } from './using.ts';

const projectRoot = fileURLToPath(new URL('..', import.meta.url));

/**
 * koffi looks for its native part in node_modules. In the bundle it lies beside the program: `koffi-linux-x64.node`.
 */
const koffiBesideTheBundle: Plugin = {
  name: 'koffi-beside-the-bundle',
  setup({ onLoad }) {
    onLoad({ filter: /\/koffi\/src\/koffi\/src\/static\.js$/ }, () => ({
      contents: `
        import { createRequire } from 'node:module';
        const require = createRequire(import.meta.url);
        export const loadStatic = (platform) => require('./koffi-' + platform + '.node');
      `,
    }));
  },
};

/** What packages bring but a driver never uses: a tenth of a second at start, and memory. */
const withoutReserve: Plugin = {
  name: 'without-reserve',
  setup({ onLoad, onResolve }) {
    // zod's messages in fifty languages.
    onLoad({ filter: /\/zod\/v4\/locales\/index\.js$/ }, () => ({
      contents: "export { default as en } from './en.js';",
    }));
    // Of protobufjs what parses .proto files: the driver has a descriptor.
    onResolve({ filter: /^protobufjs$/ }, ({ resolveDir }) => ({
      path: createRequire(join(resolveDir, '_')).resolve('protobufjs/light.js'),
    }));
    // Of proto-loader the well-known .proto files, and descriptors of every message, which are for gRPC's reflection.
    onLoad({ filter: /\/proto-loader\/build\/src\/util\.js$/ }, () => ({
      contents: 'exports.addCommonProtos = () => undefined;',
    }));
    onLoad({ filter: /\/protobufjs\/ext\/descriptor\.js$/ }, ({ path }) => ({
      contents: `
        const { Enum, Root, Type } = require('protobufjs/light.js');
        const none = { $type: { toObject: () => ({}) } };
        Root.prototype.toDescriptor = () => ({ file: [] });
        Type.prototype.toDescriptor = Enum.prototype.toDescriptor = () => none;
      `,
      resolveDir: dirname(path),
    }));
  },
};

/**
 * An ES module that imports node:http asks for everything that it exports, WebSocket among it, for which Node loads the
 * whole of its fetch: a tenth of the time to the first Probe. Who requires it gets what is used.
 */
const httpOnDemand: Plugin = {
  name: 'http-on-demand',
  setup({ onLoad, onResolve }) {
    onResolve({ filter: /^node:http$/ }, ({ kind, path }) =>
      kind === 'require-call' ? { path, external: true } : { path, namespace: 'on-demand' },
    );
    onLoad({ filter: /.*/, namespace: 'on-demand' }, ({ path }) => ({
      contents: `module.exports = require('${path}');`,
      loader: 'js',
    }));
  },
};

/** A native part of koffi, and the processor it is for, in Node's word. */
export interface NativePart {
  readonly processor: string;
  readonly file: string;
}

/**
 * Makes `<directory>/holdfast.mjs` and what it loads: self-contained, for Node 22 and newer.
 * @param nativeParts by default this machine's
 */
export async function buildBundle(
  directory: string,
  nativeParts?: readonly NativePart[],
): Promise<{ file: string; sizeBytes: number }> {
  await mkdir(directory, { recursive: true });
  const draft = await mkdtemp(join(directory, '.build-'));
  try {
    const page = await buildPage(join(directory, 'page'));
    await bundle(draft, nativeParts ?? (await installedNativeParts()), page);
    // Renamed, never written over: a driver may be running from these very files.
    for (const name of await readdir(draft)) await rename(join(draft, name), join(directory, name));
  } finally {
    await rm(draft, { recursive: true, force: true });
  }
  const file = join(directory, 'holdfast.mjs');
  return { file, sizeBytes: (await stat(file)).size };
}

async function bundle(directory: string, nativeParts: readonly NativePart[], page: readonly string[]): Promise<void> {
  const outfile = join(directory, 'holdfast.mjs');
  const { metafile } = await build({
    absWorkingDir: projectRoot,
    entryPoints: ['src/main.ts'],
    outfile,
    bundle: true,
    platform: 'node',
    format: 'esm',
    target: 'node22',
    // Names stay: stack traces of bugs can be read, and errors are named after their classes.
    minifyWhitespace: true,
    minifySyntax: true,
    legalComments: 'none',
    // CommonJS packages inside an ES module still call require for what Node brings.
    banner: {
      js: "#!/usr/bin/env node\nimport { createRequire as makeRequire } from 'node:module';\nconst require = makeRequire(import.meta.url);",
    },
    plugins: [koffiBesideTheBundle, withoutReserve, httpOnDemand],
    metafile: true,
    logLevel: 'warning',
  });
  const text = mendUsing(await readFile(outfile, 'utf8'));
  refuseWideCharacters(text);
  await writeFile(outfile, text);
  await chmod(outfile, 0o755);
  for (const { file, processor } of nativeParts) await copyFile(file, join(directory, `koffi-linux-${processor}.node`));
  await copyFile(join(projectRoot, 'LICENSE'), join(directory, 'LICENSE'));
  await writeFile(
    join(directory, 'THIRD-PARTY-LICENSES'),
    await thirdPartyLicenses([...Object.keys(metafile.inputs), ...page]),
  );
}

/**
 * V8 keeps a program's text in memory: a byte for each character, or two as soon as one of them needs two. esbuild escapes
 * those in strings and templates, and leaves those in regular expressions.
 */
function refuseWideCharacters(text: string): void {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the range is that of ASCII.
  const at = text.search(/[^\x00-\x7f]/);
  if (at === -1) return;
  const near = text.slice(Math.max(0, at - 40), at + 20);
  throw new Error(`the bundle is not ASCII, which takes twice the memory; write \\u… in: ${near}`);
}

/** Makes the page for browsers (src/page/browser): three files, which the program serves. @returns what it is made of */
export async function buildPage(directory: string): Promise<readonly string[]> {
  const source = join(projectRoot, 'src/page/browser');
  await mkdir(directory, { recursive: true });
  const { metafile, outputFiles } = await build({
    absWorkingDir: projectRoot,
    entryPoints: { page: join(source, 'main.tsx') },
    outdir: directory,
    bundle: true,
    write: false,
    format: 'esm',
    target: ['chrome111', 'firefox114', 'safari16.4'],
    minify: true,
    legalComments: 'none',
    jsx: 'automatic',
    jsxImportSource: 'preact',
    metafile: true,
    logLevel: 'warning',
  });
  const { outputFiles: styles } = await build({
    absWorkingDir: projectRoot,
    entryPoints: [join(source, 'page.css')],
    outdir: directory,
    write: false,
    minify: true,
    logLevel: 'warning',
  });
  for (const { contents, path } of [...outputFiles, ...styles]) await put(path, contents);
  await put(join(directory, 'index.html'), await readFile(join(source, 'index.html')));
  return Object.keys(metafile.inputs);
}

/** A program may be reading the file. */
async function put(path: string, contents: Uint8Array): Promise<void> {
  await writeFile(`${path}.new`, contents);
  await rename(`${path}.new`, path);
}

/** Of every platform whose package npm has installed here: this machine's. */
async function installedNativeParts(): Promise<NativePart[]> {
  const scope = join(projectRoot, 'node_modules', '@koromix');
  return (await readdir(scope)).flatMap((name) => {
    const [, platform, processor] = name.split('-');
    if (platform !== 'linux' || processor === undefined) return [];
    return { processor, file: join(scope, name, `linux_${processor}`, 'koffi.node') };
  });
}

/** The licences of the packages in the bundle, as they ask to be passed on. */
async function thirdPartyLicenses(inputs: readonly string[]): Promise<string> {
  const packages = inputs.map((input) => /^(?:.*\/)?node_modules\/(?:@[^/]+\/)?[^/]+/.exec(input)?.[0]);
  const texts: string[] = [];
  for (const directory of [...new Set(packages)].sort()) {
    if (directory === undefined) continue;
    const names = await readdir(join(projectRoot, directory));
    const file = names.find((name) => /^licen[cs]e(\.|$)/i.test(name));
    if (file === undefined) throw new Error(`${directory} is part of the bundle, but has no licence file`);
    const text = await readFile(join(projectRoot, directory, file), 'utf8');
    texts.push(`${directory.replace(/^.*node_modules\//, '')}\n\n${text.trim()}\n`);
  }
  return texts.join(`\n${'-'.repeat(80)}\n\n`);
}

if (import.meta.main) {
  new Usage('Builds the driver into dist/:\nnpm run build -- [--help]').read({});
  const startedMs = performance.now();
  const { file, sizeBytes } = await buildBundle(join(projectRoot, 'dist')).catch((error: unknown) => {
    // esbuild has shown what is wrong with the sources.
    console.error(`build: ${error instanceof Error ? error.message : String(error)}`);
    process.exit(1);
  });
  const kibibytes = Math.round(sizeBytes / 1024);
  console.log(`${file}  ${kibibytes} KiB  ${Math.round(performance.now() - startedMs)} ms`);
}
