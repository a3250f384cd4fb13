import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { ignoreMissing } from '../../kernel/call/errno.ts';
import { type DirectorySync, readIfThere } from '../../kernel/file/file.ts';
import { type GroupId, parseGroupId, parseVolumeId, type SnapshotId, type VolumeId } from '../../volume/id.ts';
import { serializeRecord, type VolumeRecord } from '../../volume/record.ts';
import { type GroupRecord, serializeGroup } from '../../volume/snapshot-record.ts';
import type { RecordStore } from '../backend.ts';
import type { CommitOrder } from './commit-order.ts';
import { overwriteFile, removeFile, replaceFile } from './durable-file.ts';
import { FileRecords } from './file-records.ts';
import { isThere } from './gone.ts';
import type { Layout } from './layout.ts';
import type { ReservedSpace } from './reserved-space.ts';

export interface FileParts {
  readonly queue: DiskQueue;
  readonly layout: Layout;
  readonly syncs: DirectorySync;
  readonly reserve: ReservedSpace;
  readonly order: CommitOrder;
  /** Runs before an object gets its place, or leaves it: throws if the pool is no longer this driver's. */
  readonly beforeChange?: () => Promise<void>;
}

/** Records as files beside the data: for every kind whose volumes lie on a filesystem. */
export class FileStore extends FileRecords<FileParts> implements RecordStore {
  async writeVolume(record: VolumeRecord): Promise<void> {
    const { layout, queue, reserve, syncs } = this.parts;
    const path = layout.record(record.id);
    await reserve.withReserve(queue, () => replaceFile(queue, syncs, path, serializeRecord(record)));
  }

  async writeGroup(record: GroupRecord): Promise<void> {
    const { layout, queue, syncs } = this.parts;
    await replaceFile(queue, syncs, layout.group(record.id), serializeGroup(record));
  }

  async removeGroup(id: GroupId): Promise<void> {
    const { layout, queue, syncs } = this.parts;
    await removeFile(queue, syncs, layout.group(id));
  }

  async sync(id: VolumeId | SnapshotId | GroupId): Promise<void> {
    const { layout, queue } = this.parts;
    const volumeId = parseVolumeId(id);
    if (parseGroupId(id) !== undefined) return this.#sync(layout.groups);
    await this.#sync(volumeId === undefined ? layout.snapshots : layout.volumes);
    if (volumeId !== undefined && (await isThere(queue, layout.volume(volumeId)))) {
      await this.#sync(layout.volume(volumeId));
    }
    await this.#sync(layout.trash);
  }

  async readAge(): Promise<string | undefined> {
    const { layout, queue } = this.parts;
    return readIfThere(queue, layout.age);
  }

  /** Always of one length, so it is written over in place. */
  async writeAge(note: string): Promise<void> {
    const { layout, queue } = this.parts;
    await overwriteFile(queue, layout.age, note);
  }

  async #sync(directory: string): Promise<void> {
    const { queue, syncs } = this.parts;
    // It may have been removed by hand since.
    await syncs.sync(queue, directory).catch(ignoreMissing);
  }
}
