import { join } from 'node:path';
import type { Architecture } from './architecture.ts';
import { environment } from './environment.ts';
import { output } from './program.ts';

export interface Layer {
  readonly directory: string;
  /** Of all its files: equal content at equal times is an equal layer, which nodes need not fetch again. */
  readonly timestamp: number;
}

export interface Image {
  readonly name: string;
  readonly architecture: Architecture;
  readonly layers: readonly Layer[];
  readonly labels: Readonly<Record<string, string>>;
  readonly entrypoint: readonly string[];
  readonly command: string;
}

/** Where images are put together, from nothing, and written as OCI archives. Needs no daemon, no registry, no network. */
export class ImageStorage {
  readonly #places: readonly string[];

  constructor(directory: string) {
    // vfs and chroot: they work everywhere, also in a container and on any filesystem.
    this.#places = ['--root', join(directory, 'root'), '--runroot', join(directory, 'run'), '--storage-driver', 'vfs'];
  }

  add({ architecture, command, entrypoint, labels, layers, name }: Image): void {
    let base = 'scratch';
    for (const [index, { directory, timestamp }] of layers.entries()) {
      const container = this.#buildah('from', base);
      this.#buildah('copy', '--quiet', container, `${directory}/`, '/');
      const isLast = index === layers.length - 1;
      this.#buildah('config', '--os', 'linux', '--arch', architecture, container);
      if (isLast) {
        const given = Object.entries(labels).flatMap(([key, value]) => ['--label', `${key}=${value}`]);
        const entry = ['--entrypoint', JSON.stringify(entrypoint), '--cmd', command];
        const variables = Object.entries(environment).flatMap(([name, value]) => ['--env', `${name}=${value}`]);
        this.#buildah('config', ...variables, '--workingdir', '/', ...entry, ...given, container);
      }
      base = isLast ? name : `localhost/${architecture}-layer-${index}`;
      this.#buildah('commit', '--quiet', '--format', 'oci', '--timestamp', `${timestamp}`, '--rm', container, base);
    }
  }

  writeArchive(name: string, archive: string): void {
    this.#buildah('push', '--quiet', name, `oci-archive:${archive}:${name}`);
  }

  /** Several images, each for its architecture, under one name. */
  writeIndex(name: string, images: readonly string[], archive: string): void {
    this.#buildah('manifest', 'create', name);
    for (const image of images) this.#buildah('manifest', 'add', name, image);
    this.#buildah('manifest', 'push', '--quiet', '--all', '--format', 'oci', name, `oci-archive:${archive}:${name}`);
  }

  #buildah(verb: string, ...parameters: string[]): string {
    return output('buildah', [...this.#places, verb, ...parameters], { BUILDAH_ISOLATION: 'chroot' }).trim();
  }
}
