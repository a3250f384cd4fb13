import type { SnapshotId, VolumeId } from '../../volume/id.ts';
import type { DataRef, SpaceSource } from '../backend.ts';
import type { TrashRef } from '../indexes/trash-entry.ts';

/** The common part where data is named by its id, and nothing waits to be written. It is all its own, unless a kind says more. */
export abstract class SpaceById {
  async sync(): Promise<void> {}

  dataOfVolume(id: VolumeId): DataRef {
    return id;
  }

  dataOfSnapshot(id: SnapshotId): DataRef {
    return id;
  }

  dataInTrash(ref: TrashRef): DataRef {
    return ref;
  }

  abstract allocatedBytes(data: DataRef): Promise<bigint>;

  async sharing(data: DataRef): ReturnType<SpaceSource['sharing']> {
    return { sharedBytes: 0n, unsharedBytes: await this.allocatedBytes(data) };
  }

  async *places(): ReturnType<SpaceSource['places']> {}
}
