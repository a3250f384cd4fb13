import { join } from 'node:path';
import { readIfThere } from '../../../kernel/file/file.ts';
import { parseRecord } from '../../../volume/record.ts';
import type { DataRef, SpaceSource, StorageSpace } from '../../backend.ts';
import { FilesystemSpace, type SpaceParts } from '../../records/filesystem-space.ts';
import type { StorageCalls } from './storage-calls.ts';

/** More than there is anywhere: the program refuses what it has no room for. */
const unknownBytes = 1n << 60n;

/** The space of a program, by its own words. Records take none of it. */
export class ExecSpace extends FilesystemSpace<SpaceParts> implements SpaceSource {
  readonly sharesBlocks = false;
  readonly isForVolumesAlone = true;
  readonly #storage: Pick<StorageCalls, 'capacity'> | undefined;

  /** @param storage undefined: the program is not asked */
  constructor(parts: SpaceParts, storage: Pick<StorageCalls, 'capacity'> | undefined) {
    super(parts);
    this.#storage = storage;
  }

  override get reservedBytes(): bigint {
    return 0n;
  }

  override async storage(): Promise<StorageSpace> {
    const { isOutOfInodes } = await super.storage();
    const capacity = await this.#storage?.capacity();
    const { availableBytes, totalBytes } = capacity ?? { totalBytes: unknownBytes, availableBytes: unknownBytes };
    return {
      filesystemBytes: totalBytes,
      freeBytes: availableBytes,
      takenBytes: totalBytes - availableBytes,
      isCountedLate: false,
      isOutOfInodes,
    };
  }

  /** The size of the volume: the program says how much is left for others, so none of it is counted as to be written yet. */
  async allocatedBytes(data: DataRef): Promise<bigint> {
    const path = join(this.parts.layout.directoryAt(data), 'volume.json');
    const text = await readIfThere(this.parts.queue, path);
    try {
      return text === undefined ? 0n : parseRecord(text, path).sizeBytes;
    } catch {
      // A damaged record is reported elsewhere.
      return 0n;
    }
  }
}
