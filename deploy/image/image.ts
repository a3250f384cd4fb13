import { mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import manifest from '../../package.json' with { type: 'json' };
import { version } from '../../src/version.ts';
import { type Architecture, namesOf } from './architecture.ts';
import { packages } from './contents.ts';
import { type Archive, type DebianPackage, unpackPackages } from './debian.ts';
import type { Image } from './layers.ts';
import { differences, lockText } from './lock.ts';
import { type NpmPackage, unpackNpm } from './npm.ts';
import { addNode, addProgram, entrypoint } from './own-layers.ts';
import { installPrograms, output } from './program.ts';
import { Selection } from './select.ts';

export const projectRoot = fileURLToPath(new URL('../..', import.meta.url));

export interface ImageRequest {
  readonly architecture: Architecture;
  readonly archive: Archive;
  /** What to do where packages are not those of the committed lock: say so, fail, or write the lock anew. */
  readonly lock: 'tell' | 'require' | 'update';
  /** A new directory for all that is made on the way. */
  readonly work: string;
}

export interface MadeImage extends Pick<Image, 'architecture' | 'command' | 'entrypoint' | 'labels' | 'layers'> {
  readonly debian: readonly DebianPackage[];
  readonly npm: readonly NpmPackage[];
}

/** Installs what images are made with. */
export function installTools(architectures: readonly Architecture[]): void {
  const strips = architectures.map((each) => {
    const { triplet } = namesOf(each);
    return [`${triplet}-strip`, `binutils-${triplet.replace('_', '-')}`];
  });
  installPrograms({ buildah: 'buildah', mmdebstrap: 'mmdebstrap', readelf: 'binutils', ...Object.fromEntries(strips) });
}

/** Makes the layers of one image. Its stages: Debian's packages, what is chosen of them, Node, the bundle. */
export async function makeImage({ architecture, archive, lock, work }: ImageRequest): Promise<MadeImage> {
  const { npm: processor, triplet } = namesOf(architecture);
  mkdirSync(work, { recursive: true });
  const tree = join(work, 'debian');
  const [system, node, program] = [join(work, 'system'), join(work, 'node'), join(work, 'program')];
  const debian = unpackPackages(tree, packages, archive, architecture);
  const nodePackage = unpackNpm(`node-linux-${processor}`, manifest.devDependencies.node, join(work, 'npm'));
  const koffi = unpackNpm(`@koromix/koffi-linux-${processor}`, manifest.dependencies.koffi, join(work, 'npm'));
  checkLock(architecture, lockText(debian, [nodePackage, koffi]), lock);
  const linked = [...addNode(nodePackage, triplet, node), ...(await addProgram(koffi, processor, program))];
  const selection = new Selection(tree, system, triplet);
  selection.takePrograms();
  selection.takeCertificates();
  for (const file of linked) selection.takeLibrariesOf(file);
  selection.describePackages(debian);
  const created = creationTime();
  const layers = [
    { directory: system, timestamp: 0 },
    { directory: node, timestamp: 0 },
    { directory: program, timestamp: created },
  ];
  for (const { directory } of layers) {
    console.error(`${architecture}  ${basename(directory).padEnd(8)} ${mebibytes(sizeOf(directory))}`);
  }
  return {
    architecture,
    layers,
    labels: labels(created),
    entrypoint,
    command: 'serve',
    debian,
    npm: [nodePackage, koffi],
  };
}

/** What is committed is what a release is made of; a build from a Debian that has moved on says so. */
function checkLock(architecture: Architecture, found: string, lock: ImageRequest['lock']): void {
  const file = fileURLToPath(new URL(`packages.${architecture}.lock`, import.meta.url));
  if (lock === 'update') writeFileSync(file, found);
  const others = differences(readFileSync(file, 'utf8'), found);
  if (others.length === 0) return;
  console.error(`image: not what ${basename(file)} has:\n  ${others.join('\n  ')}`);
  if (lock === 'require') throw new Error('--locked: name a --mirror that still has those versions, or --update-lock');
}

/** Of the commit, in seconds, so that building it again gives the same image (reproducible-builds.org). */
export function creationTime(): number {
  return Number(process.env['SOURCE_DATE_EPOCH'] ?? output('git', ['-C', projectRoot, 'log', '-1', '--format=%ct']));
}

function labels(created: number): Record<string, string> {
  const values = {
    title: 'Holdfast',
    description: manifest.description,
    version,
    revision: output('git', ['-C', projectRoot, 'rev-parse', 'HEAD']).trim(),
    created: new Date(created * 1000).toISOString(),
    licenses: manifest.license,
  };
  return Object.fromEntries(Object.entries(values).map(([key, value]) => [`org.opencontainers.image.${key}`, value]));
}

const ociIndex = z.object({ manifests: z.tuple([z.object({ digest: z.string() })]) });

/** Of the manifest: what a registry will know this image by. The archive's own bytes have the times of its making. */
export function digestOf(archive: string): string {
  return ociIndex.parse(JSON.parse(output('tar', ['-xOf', archive, 'index.json']))).manifests[0].digest;
}

export function describeArchive(archive: string): string {
  return `archive  ${mebibytes(statSync(archive).size)}`;
}

function sizeOf(directory: string): number {
  return Number(output('du', ['--summarize', '--block-size=1', directory]).split('\t', 1)[0]);
}

function mebibytes(bytes: number): string {
  return `${(bytes / 2 ** 20).toFixed(1).padStart(6)} MiB`;
}
