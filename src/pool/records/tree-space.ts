import { dirname, join } from 'node:path';
import type { VolumeId } from '../../volume/id.ts';
import type { DataRef, SpaceSource } from '../backend.ts';
import type { TrashRef } from '../indexes/trash-entry.ts';
import { TreeSizes } from '../space/tree-sizes.ts';
import { FilesystemSpace, type SpaceParts } from './filesystem-space.ts';

/** The space of volumes that are directories, which are counted now and then: where the blocks of a million files lie is too much to ask. */
export class TreeSpace<Parts extends SpaceParts> extends FilesystemSpace<Parts> implements SpaceSource {
  readonly sharesBlocks: boolean;
  onCounted: SpaceSource['onCounted'];
  readonly #sizes: TreeSizes;

  constructor(parts: Parts, { sharesBlocks }: { readonly sharesBlocks: boolean }) {
    super(parts);
    this.sharesBlocks = sharesBlocks;
    this.#sizes = new TreeSizes(parts.queue, (path) => this.#counted(dirname(path)));
  }

  close(): Promise<void> {
    return this.#sizes.close();
  }

  forget(data: DataRef): void {
    this.#sizes.forget(this.#treeOf(data));
  }

  recount(data: DataRef): Promise<void> {
    return this.#sizes.recount(this.#treeOf(data));
  }

  moved(from: VolumeId, to: TrashRef): void {
    this.#sizes.move(this.#treeOf(from), this.#treeOf(to));
  }

  async allocatedBytes(data: DataRef): Promise<bigint> {
    return this.#sizes.of(this.#treeOf(data));
  }

  #treeOf(data: DataRef): string {
    return join(this.parts.layout.directoryAt(data), 'data');
  }

  #counted(directory: string): void {
    this.onCounted?.(this.parts.layout.idAt(directory) ?? directory);
  }
}
