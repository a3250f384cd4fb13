import { join } from 'node:path';
import { openReadOnly } from '../../../kernel/call/descriptor.ts';
import { ignoreMissing, isErrno } from '../../../kernel/call/errno.ts';
import { type Place, readPlaces, readSharing } from '../../../kernel/file/fiemap.ts';
import { maximumVolumeBytes } from '../../../volume/size.ts';
import type { DataRef, SpaceSource, TemplateSpace } from '../../backend.ts';
import { allocatedBytesOf, FilesystemSpace, type SpaceParts } from '../../records/filesystem-space.ts';

export interface ImageSpaceParts extends SpaceParts {
  readonly cloning: 'reflink' | 'copy';
  readonly templates: TemplateSpace | undefined;
}

/** The space that images take of their filesystem. */
export class ImageSpace extends FilesystemSpace<ImageSpaceParts> implements SpaceSource {
  get sharesBlocks(): boolean {
    return this.parts.cloning === 'reflink';
  }

  get templates(): TemplateSpace | undefined {
    return this.parts.templates;
  }

  allocatedBytes(data: DataRef): Promise<bigint> {
    return allocatedBytesOf(this.parts.queue, this.#pathOf(data));
  }

  /** The image may have been removed by hand, or may be on its way out. */
  async sharing(data: DataRef): ReturnType<NonNullable<SpaceSource['sharing']>> {
    const { queue } = this.parts;
    try {
      await using image = await openReadOnly(queue, this.#pathOf(data));
      return await readSharing(queue, image);
    } catch (error) {
      if (isErrno(error, 'ENOENT')) return { sharedBytes: 0n, unsharedBytes: 0n };
      // A filesystem that does not tell: all may be shared.
      if (isErrno(error, 'ENOTSUP', 'ENOTTY')) return { sharedBytes: maximumVolumeBytes, unsharedBytes: 0n };
      throw error;
    }
  }

  async *places(data: DataRef): AsyncGenerator<readonly Place[], void, void> {
    const { queue } = this.parts;
    const file = await openReadOnly(queue, this.#pathOf(data)).catch(ignoreMissing);
    if (file === undefined) return;
    await using image = file;
    yield* readPlaces(queue, image);
  }

  #pathOf(data: DataRef): string {
    return join(this.parts.layout.directoryAt(data), 'data');
  }
}
