import { basename, join } from 'node:path';
import { openReadOnly } from '../../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { finishUnlinks, syncFilesystem } from '../../../kernel/file/filesystem.ts';
import { parseVolumeId, type SnapshotId, type VolumeId } from '../../../volume/id.ts';
import { larger, smaller } from '../../../volume/size.ts';
import type { DataRef, SpaceSource, StorageSpace } from '../../backend.ts';
import type { TrashRef } from '../../catalog/trash-entry.ts';
import type { ReservedSpace } from '../../location/reserved-space.ts';
import type { QuotaUsage } from '../../pool.ts';
import { readFilesystemSpace } from '../../records/filesystem-space.ts';
import type { Layout } from '../../records/layout.ts';
import { TreeSizes } from '../../space/tree-sizes.ts';
import type { Projects } from './projects.ts';

export interface DirectorySpaceOptions {
  readonly queue: DiskQueue;
  readonly layout: Layout;
  readonly projects: Projects | undefined;
  readonly reserve: Pick<ReservedSpace, 'bytes'>;
  readonly canShareBlocks: boolean;
}

/** What directories take: by their quota, else counted now and then. Data is named by the directory that it lies in. */
export class DirectorySpace implements SpaceSource {
  readonly sharesBlocks: boolean;
  readonly #parts: DirectorySpaceOptions;
  readonly #sizes: TreeSizes;

  constructor(parts: DirectorySpaceOptions) {
    this.#parts = parts;
    this.sharesBlocks = parts.canShareBlocks;
    this.#sizes = new TreeSizes(parts.queue);
  }

  close(): Promise<void> {
    return this.#sizes.close();
  }

  get reservedBytes(): bigint {
    return this.#parts.reserve.bytes;
  }

  storage(): Promise<StorageSpace> {
    const { layout, queue, reserve } = this.#parts;
    return readFilesystemSpace(queue, {
      root: layout.root,
      backingFile: undefined,
      reserve: { bytes: reserve.bytes, hostBytes: 0n },
    });
  }

  async sync(): Promise<void> {
    const { layout, queue } = this.#parts;
    await using root = await openReadOnly(queue, layout.root);
    await syncFilesystem(queue, root);
  }

  settle(): Promise<void> {
    return finishUnlinks(this.#parts.queue, this.#parts.layout.root);
  }

  dataOfVolume(id: VolumeId): DataRef {
    return this.#parts.layout.volume(id);
  }

  dataOfSnapshot(id: SnapshotId): DataRef {
    return this.#parts.layout.snapshot(id);
  }

  dataInTrash(ref: TrashRef): DataRef {
    return ref;
  }

  idInTrash(ref: TrashRef): VolumeId | undefined {
    return parseVolumeId(basename(ref).split('.')[0] ?? '');
  }

  async allocatedBytes(data: DataRef): Promise<bigint> {
    const usage = await this.#parts.projects?.usageIn(data);
    return usage?.usedBytes ?? this.#sizes.of(join(data, 'data'));
  }

  /** Where the blocks of a million files lie is too much to ask: all of what may be shared counts as shared. */
  async sharing(data: DataRef): ReturnType<SpaceSource['sharing']> {
    return { sharedBytes: await this.allocatedBytes(data), unsharedBytes: 0n };
  }

  async *places(): ReturnType<SpaceSource['places']> {}

  /** As df(1) in the volume tells it. */
  async quotaUsage(id: VolumeId): Promise<QuotaUsage | undefined> {
    const usage = await this.#parts.projects?.usageIn(this.dataOfVolume(id));
    if (usage === undefined || usage.limits.bytes === 0n) return undefined;
    const { freeBytes } = await this.storage();
    const total = usage.limits.bytes;
    const available = smaller(larger(0n, total - usage.usedBytes), larger(0n, freeBytes - this.reservedBytes));
    return { bytes: { total, used: usage.usedBytes, available }, inodes: undefined };
  }
}
