import { parseSnapshotId, parseVolumeId, type SnapshotId, type VolumeId } from '../../volume/id.ts';
import type { DataRef, SpaceSource, StorageSpace } from '../backend.ts';
import type { TrashRef } from '../indexes/trash-entry.ts';
import type { PoolDisks } from './disks.ts';

/** More than there is anywhere: the cloud refuses what it, or the account's quota, has no room for. */
const unknownBytes = 1n << 60n;

/** The space of a cloud. */
export class CloudSpace implements SpaceSource {
  readonly sharesBlocks = false;
  readonly isForVolumesAlone = true;
  readonly reservedBytes = 0n;
  readonly #disks: PoolDisks;

  constructor(disks: PoolDisks) {
    this.#disks = disks;
  }

  async storage(): Promise<StorageSpace> {
    return {
      filesystemBytes: unknownBytes,
      freeBytes: unknownBytes,
      takenBytes: 0n,
      isCountedLate: false,
      isOutOfInodes: false,
    };
  }

  idInTrash(ref: TrashRef): VolumeId | SnapshotId | undefined {
    return parseVolumeId(ref) ?? parseSnapshotId(ref);
  }

  /** A disk is paid for as a whole; a snapshot by its content, which nothing here knows. */
  async allocatedBytes(data: DataRef): Promise<bigint> {
    const id = parseVolumeId(data);
    return id === undefined ? 0n : (this.#disks.lastSeen(id)?.sizeBytes ?? 0n);
  }
}
