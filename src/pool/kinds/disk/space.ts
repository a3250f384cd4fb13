import { parseVolumeId, type VolumeId } from '../../../volume/id.ts';
import type { DataRef, SpaceSource, StorageSpace } from '../../backend.ts';
import type { TrashRef } from '../../catalog/trash-entry.ts';
import { type Disks, volumeOf } from './disks.ts';

/** Each disk is one piece. */
export class DiskSpace implements SpaceSource {
  readonly sharesBlocks = false;
  readonly reservedBytes = 0n;
  readonly pieces: NonNullable<SpaceSource['pieces']>;
  readonly #disks: Pick<Disks, 'own' | 'pieces'>;

  constructor(disks: Pick<Disks, 'own' | 'pieces'>) {
    this.#disks = disks;
    this.pieces = () => disks.pieces();
  }

  async storage(): Promise<StorageSpace> {
    const pieces = await this.pieces();
    const sum = (isFree: boolean) =>
      pieces.filter(({ use }) => (use === 'free') === isFree).reduce((total, { sizeBytes }) => total + sizeBytes, 0n);
    const [freeBytes, takenBytes] = [sum(true), sum(false)];
    const filesystemBytes = freeBytes + takenBytes;
    return { filesystemBytes, freeBytes, takenBytes, isCountedLate: false, isOutOfInodes: false };
  }

  async sync(): Promise<void> {}

  async settle(): Promise<void> {}

  dataOfVolume(id: VolumeId): DataRef {
    return id;
  }

  dataOfSnapshot(id: string): DataRef {
    return id;
  }

  dataInTrash(ref: TrashRef): DataRef {
    return ref;
  }

  idInTrash(ref: TrashRef): VolumeId | undefined {
    return parseVolumeId(ref.split('.')[0] ?? '');
  }

  async allocatedBytes(data: DataRef): Promise<bigint> {
    const own = this.#disks.own().find(({ use }) => volumeOf(use) === data || ('ref' in use && use.ref === data));
    return own?.data.lengthBytes ?? 0n;
  }

  async sharing(data: DataRef): ReturnType<SpaceSource['sharing']> {
    return { sharedBytes: 0n, unsharedBytes: await this.allocatedBytes(data) };
  }

  async *places(): ReturnType<SpaceSource['places']> {}
}
