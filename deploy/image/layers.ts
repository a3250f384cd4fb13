import { join } from 'node:path';
import { output } from './program.ts';

export interface Layer {
  readonly directory: string;
  /** Of all its files: equal content at equal times is an equal layer, which nodes need not fetch again. */
  readonly timestamp: number;
}

export interface Image {
  readonly name: string;
  readonly layers: readonly Layer[];
  readonly labels: Readonly<Record<string, string>>;
  readonly entrypoint: readonly string[];
  readonly command: string;
}

/** Puts an image together, from nothing, and writes it as an OCI archive. Needs no daemon, no registry, no network. */
export function writeArchive(
  { command, entrypoint, labels, layers, name }: Image,
  archive: string,
  storage: string,
): void {
  // vfs and chroot: they work everywhere, also in a container and on any filesystem.
  const places = ['--root', join(storage, 'root'), '--runroot', join(storage, 'run'), '--storage-driver', 'vfs'];
  const buildah = (verb: string, ...args: string[]) =>
    output('buildah', [...places, verb, ...args], { BUILDAH_ISOLATION: 'chroot' }).trim();
  let base = 'scratch';
  for (const [index, { directory, timestamp }] of layers.entries()) {
    const container = buildah('from', base);
    buildah('copy', '--quiet', container, `${directory}/`, '/');
    const isLast = index === layers.length - 1;
    if (isLast) {
      const given = Object.entries(labels).flatMap(([key, value]) => ['--label', `${key}=${value}`]);
      const entry = ['--entrypoint', JSON.stringify(entrypoint), '--cmd', command];
      buildah('config', '--env', `PATH=${searchPath}`, '--workingdir', '/', ...entry, ...given, container);
    }
    base = isLast ? name : `localhost/layer-${index}`;
    buildah('commit', '--quiet', '--format', 'oci', '--timestamp', `${timestamp}`, '--rm', container, base);
  }
  buildah('push', '--quiet', name, `oci-archive:${archive}:${name}`);
}

const searchPath = '/usr/sbin:/usr/bin';
