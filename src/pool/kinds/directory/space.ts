import { basename, dirname, join } from 'node:path';
import { parseVolumeId, type SnapshotId, type VolumeId } from '../../../volume/id.ts';
import { larger, smaller } from '../../../volume/size.ts';
import type { Counted, DataRef, SpaceSource } from '../../backend.ts';
import type { TrashRef } from '../../catalog/trash-entry.ts';
import type { QuotaUsage } from '../../pool.ts';
import { FilesystemSpace, type SpaceParts } from '../../records/filesystem-space.ts';
import { TreeSizes } from '../../space/tree-sizes.ts';
import type { Projects } from './projects.ts';

export interface DirectorySpaceParts extends SpaceParts {
  readonly projects: Projects | undefined;
  readonly canShareBlocks: boolean;
}

/** What directories take: by their quota, else counted now and then. Data is named by the directory that it lies in. */
export class DirectorySpace extends FilesystemSpace<DirectorySpaceParts> implements SpaceSource {
  readonly sharesBlocks: boolean;
  /** Where the blocks of a million files lie is too much to ask. */
  readonly hasMaps = false;
  onCounted: ((counted: Counted) => void) | undefined;
  readonly #sizes: TreeSizes;

  constructor(parts: DirectorySpaceParts) {
    super(parts);
    this.sharesBlocks = parts.canShareBlocks;
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

  #counted(data: DataRef): void {
    const volumeId = dirname(data) === this.parts.layout.volumes ? parseVolumeId(basename(data)) : undefined;
    this.onCounted?.(volumeId === undefined ? { data } : { volumeId });
  }

  outdate(data: DataRef): void {
    this.#sizes.outdate(treeIn(data));
  }

  moved(from: DataRef, to: DataRef): void {
    this.#sizes.move(treeIn(from), treeIn(to));
  }

  async allocatedBytes(data: DataRef): Promise<bigint> {
    const usage = await this.parts.projects?.usageIn(data);
    return usage?.usedBytes ?? this.#sizes.of(treeIn(data));
  }

  /** All of what may be shared. */
  async sharing(data: DataRef): ReturnType<SpaceSource['sharing']> {
    return { sharedBytes: await this.allocatedBytes(data), unsharedBytes: 0n };
  }

  async *places(): ReturnType<SpaceSource['places']> {}

  /** As df(1) in the volume tells it. */
  async quotaUsage(id: VolumeId): Promise<QuotaUsage | undefined> {
    const usage = await this.parts.projects?.usageIn(this.dataOfVolume(id));
    if (usage === undefined || usage.limits.bytes === 0n) return undefined;
    const { freeBytes } = await this.storage();
    const total = usage.limits.bytes;
    const available = smaller(larger(0n, total - usage.usedBytes), larger(0n, freeBytes - this.reservedBytes));
    return { bytes: { total, used: usage.usedBytes, available }, inodes: undefined };
  }
}

function treeIn(data: DataRef): string {
  return join(data, 'data');
}
