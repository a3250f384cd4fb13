/*
 * npm run image: the container image, as an OCI archive.
 *
 * There is no Containerfile: an image of chosen files has no base to name and nothing to RUN, and every line of this
 * works where no registry can be reached. Its stages: Debian's packages, what is chosen of them, Node, the bundle; each
 * of the last three is a layer.
 */
import {
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { version } from '../../src/version.ts';
import { packages } from './contents.ts';
import { type DebianPackage, debianArchive, differences, lockText, unpackPackages } from './debian.ts';
import { writeArchive } from './layers.ts';
import { addNode, addProgram, entrypoint } from './own-layers.ts';
import { installPrograms, output } from './program.ts';
import { Selection } from './select.ts';

const projectRoot = fileURLToPath(new URL('../..', import.meta.url));
const lockFile = fileURLToPath(new URL('packages.lock', import.meta.url));

const { values: options } = parseArgs({
  options: {
    output: { type: 'string', default: join(projectRoot, '.cache', 'image', 'holdfast.tar') },
    name: { type: 'string', default: `localhost/holdfast:${version}` },
    locked: { type: 'boolean', default: false },
    'update-lock': { type: 'boolean', default: false },
    mirror: { type: 'string', default: debianArchive.mirror },
    'security-mirror': { type: 'string', default: debianArchive.securityMirror },
  },
});

async function build(archive: string, work: string): Promise<void> {
  const tree = join(work, 'debian');
  const system = join(work, 'system');
  const node = join(work, 'node');
  const program = join(work, 'program');
  const found = unpackPackages(tree, packages, {
    mirror: options.mirror,
    securityMirror: options['security-mirror'],
  });
  checkLock(found);
  const linked = [...addNode(projectRoot, node), ...(await addProgram(program))];
  const selection = new Selection(tree, system);
  selection.takePrograms();
  selection.takeCertificates();
  for (const path of linked) {
    const visitor = join('/tmp', basename(path));
    copyFileSync(path, join(tree, visitor));
    selection.takeLibrariesOf(visitor);
  }
  selection.describePackages(found);
  const created = creationTime();
  const layers = [
    { directory: system, timestamp: 0 },
    { directory: node, timestamp: 0 },
    { directory: program, timestamp: created },
  ];
  const draft = join(work, 'image.tar');
  writeArchive(
    { name: options.name, layers, labels: labels(created), entrypoint, command: 'serve' },
    draft,
    join(work, 'storage'),
  );
  renameSync(draft, archive);
  for (const { directory } of layers) console.log(`${basename(directory).padEnd(8)} ${mebibytes(sizeOf(directory))}`);
}

/** What is committed is what a release is made of; a build from a Debian that has moved on says so. */
function checkLock(found: readonly DebianPackage[]): void {
  if (options['update-lock']) writeFileSync(lockFile, lockText(found));
  const others = differences(readFileSync(lockFile, 'utf8'), found);
  if (others.length === 0) return;
  console.error(`image: not what packages.lock has:\n  ${others.join('\n  ')}`);
  if (options.locked) throw new Error('--locked: name a --mirror that still has those versions, or --update-lock');
}

/** Of the commit, so that building it again gives the same image (reproducible-builds.org). */
function creationTime(): number {
  return Number(process.env['SOURCE_DATE_EPOCH'] ?? output('git', ['-C', projectRoot, 'log', '-1', '--format=%ct']));
}

function labels(created: number): Record<string, string> {
  const values = {
    title: 'Holdfast',
    description: "A CSI driver: durable Kubernetes volumes on the cluster's own disks",
    version,
    revision: output('git', ['-C', projectRoot, 'rev-parse', 'HEAD']).trim(),
    created: new Date(created * 1000).toISOString(),
    licenses: 'Apache-2.0',
  };
  return Object.fromEntries(Object.entries(values).map(([key, value]) => [`org.opencontainers.image.${key}`, value]));
}

function sizeOf(directory: string): number {
  return Number(output('du', ['--summarize', '--block-size=1', directory]).split('\t', 1)[0]);
}

/** Of the manifest: what a registry will know this image by. The archive's own bytes have the times of its making. */
function digestOf(archive: string): string {
  return /"digest":"(sha256:[0-9a-f]{64})"/.exec(output('tar', ['-xOf', archive, 'index.json']))?.[1] ?? '';
}

function mebibytes(bytes: number): string {
  return `${(bytes / 2 ** 20).toFixed(1).padStart(6)} MiB`;
}

const startedMs = performance.now();
const archive = resolve(options.output);
mkdirSync(dirname(archive), { recursive: true });
// Beside the result: /tmp may be memory.
const work = mkdtempSync(join(dirname(archive), '.build-'));
try {
  if (process.getuid?.() !== 0) throw new Error('root is needed: files of an image have owners');
  installPrograms({ buildah: 'buildah', mmdebstrap: 'mmdebstrap', strip: 'binutils' });
  await build(archive, work);
  const seconds = Math.round((performance.now() - startedMs) / 1000);
  console.log(
    `archive  ${mebibytes(statSync(archive).size)}  ${seconds} s\n${options.name} ${digestOf(archive)}\n${archive}`,
  );
} catch (error) {
  console.error(`image: ${error instanceof Error ? error.message : String(error)}`);
  process.exitCode = 1;
} finally {
  rmSync(work, { recursive: true, force: true });
}
