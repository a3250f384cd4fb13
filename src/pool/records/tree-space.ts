import { basename, dirname, join } from 'node:path';
import { parseVolumeId, type SnapshotId, type VolumeId } from '../../volume/id.ts';
import type { Counted, DataRef, SpaceSource } from '../backend.ts';
import type { TrashRef } from '../indexes/trash-entry.ts';
import { TreeSizes } from '../space/tree-sizes.ts';
import { FilesystemSpace, type SpaceParts } from './filesystem-space.ts';

/** The space of volumes that are directories, which are counted now and then. Data is named by the directory that it lies in. */
export class TreeSpace<Parts extends SpaceParts> extends FilesystemSpace<Parts> implements SpaceSource {
  readonly sharesBlocks: boolean;
  /** Where the blocks of a million files lie is too much to ask. */
  readonly hasMaps = false;
  onCounted: ((counted: Counted) => void) | undefined;
  readonly #sizes: TreeSizes;

  constructor(parts: Parts, { sharesBlocks }: { readonly sharesBlocks: boolean }) {
    super(parts);
    this.sharesBlocks = sharesBlocks;
    this.#sizes = new TreeSizes(parts.queue, (path) => this.#counted(dirname(path)));
  }

  close(): Promise<void> {
    return this.#sizes.close();
  }

  dataOfVolume(id: VolumeId): DataRef {
    return this.parts.layout.volume(id);
  }

  dataOfSnapshot(id: SnapshotId): DataRef {
    return this.parts.layout.snapshot(id);
  }

  dataInTrash(ref: TrashRef): DataRef {
    return ref;
  }

  forget(data: DataRef): void {
    this.#sizes.forget(treeIn(data));
  }

  recount(data: DataRef): Promise<void> {
    return this.#sizes.recount(treeIn(data));
  }

  moved(from: DataRef, to: DataRef): void {
    this.#sizes.move(treeIn(from), treeIn(to));
  }

  async allocatedBytes(data: DataRef): Promise<bigint> {
    return this.#sizes.of(treeIn(data));
  }

  /** All of what may be shared. */
  async sharing(data: DataRef): ReturnType<SpaceSource['sharing']> {
    return { sharedBytes: await this.allocatedBytes(data), unsharedBytes: 0n };
  }

  async *places(): ReturnType<SpaceSource['places']> {}

  #counted(data: DataRef): void {
    const volumeId = dirname(data) === this.parts.layout.volumes ? parseVolumeId(basename(data)) : undefined;
    this.onCounted?.(volumeId === undefined ? { data } : { volumeId });
  }
}

function treeIn(data: DataRef): string {
  return join(data, 'data');
}
