import { basename, join } from 'node:path';
import { openReadOnly } from '../../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { ignoreMissing, isErrno } from '../../../kernel/call/errno.ts';
import { type Place, readPlaces, readSharing } from '../../../kernel/file/fiemap.ts';
import { finishUnlinks, syncFilesystem } from '../../../kernel/file/filesystem.ts';
import { parseVolumeId, type SnapshotId, type VolumeId } from '../../../volume/id.ts';
import { maximumVolumeBytes } from '../../../volume/size.ts';
import type { DataRef, SpaceSource, StorageSpace, TemplateSpace } from '../../backend.ts';
import type { TrashRef } from '../../catalog/trash-entry.ts';
import type { ReservedSpace } from '../../location/reserved-space.ts';
import { allocatedBytesOf, readFilesystemSpace } from '../../records/filesystem-space.ts';
import type { Layout } from '../../records/layout.ts';

export interface ImageSpaceOptions {
  readonly queue: DiskQueue;
  readonly layout: Layout;
  readonly cloning: 'reflink' | 'copy';
  /** The sparse file that the pool's filesystem lies in, if it does. */
  readonly backingFile: string | undefined;
  readonly reserve: Pick<ReservedSpace, 'bytes' | 'hostBytes'>;
  readonly templates: TemplateSpace | undefined;
}

/** What is on its way out is named after what it was (`Layout.newTrash`). */
const volumeIdLength = 'vol-'.length + 26;

/** What images take of the filesystem that they lie on. Data is named by its path. */
export class ImageSpace implements SpaceSource {
  readonly #options: ImageSpaceOptions;

  constructor(options: ImageSpaceOptions) {
    this.#options = options;
  }

  get sharesBlocks(): boolean {
    return this.#options.cloning === 'reflink';
  }

  get templates(): TemplateSpace | undefined {
    return this.#options.templates;
  }

  get reservedBytes(): bigint {
    return this.#options.reserve.bytes;
  }

  storage(): Promise<StorageSpace> {
    const { backingFile, layout, queue, reserve } = this.#options;
    return readFilesystemSpace(queue, { root: layout.root, backingFile, reserve });
  }

  async sync(): Promise<void> {
    const { layout, queue } = this.#options;
    await using root = await openReadOnly(queue, layout.root);
    await syncFilesystem(queue, root);
  }

  settle(): Promise<void> {
    return finishUnlinks(this.#options.queue, this.#options.layout.root);
  }

  dataOfVolume(id: VolumeId): DataRef {
    return this.#options.layout.data(id);
  }

  dataOfSnapshot(id: SnapshotId): DataRef {
    return this.#options.layout.snapshotData(id);
  }

  dataInTrash(ref: TrashRef): DataRef {
    return join(ref, 'data');
  }

  idInTrash(ref: TrashRef): VolumeId | undefined {
    return parseVolumeId(basename(ref).slice(0, volumeIdLength));
  }

  allocatedBytes(data: DataRef): Promise<bigint> {
    return allocatedBytesOf(this.#options.queue, data);
  }

  /** Of an image that may have been removed by hand, or may be on its way out. */
  async sharing(data: DataRef): ReturnType<SpaceSource['sharing']> {
    const { queue } = this.#options;
    try {
      await using image = await openReadOnly(queue, data);
      return await readSharing(queue, image);
    } catch (error) {
      if (isErrno(error, 'ENOENT')) return { sharedBytes: 0n, unsharedBytes: 0n };
      // A filesystem that does not tell: all may be shared.
      if (isErrno(error, 'ENOTSUP', 'ENOTTY')) return { sharedBytes: maximumVolumeBytes, unsharedBytes: 0n };
      throw error;
    }
  }

  async *places(data: DataRef): AsyncGenerator<readonly Place[], void, void> {
    const { queue } = this.#options;
    const file = await openReadOnly(queue, data).catch(ignoreMissing);
    if (file === undefined) return;
    await using image = file;
    yield* readPlaces(queue, image);
  }
}
