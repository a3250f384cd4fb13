import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { isErrno } from '../../../kernel/call/errno.ts';
import { statusOf } from '../../../kernel/file/path.ts';
import type { ByteRange } from '../../../kernel/file/sparse.ts';
import { type FilesystemType, filesystemTypes } from '../../../volume/filesystem.ts';
import type { GroupId, SnapshotId, VolumeId } from '../../../volume/id.ts';
import { type Publication, provisionings, type VolumeRecord, type VolumeSource } from '../../../volume/record.ts';
import type { GroupRecord, SnapshotRecord } from '../../../volume/snapshot-record.ts';
import type { Trimming } from '../../../volume/trimming.ts';
import { ImageDeletion } from '../../catalog/deletion.ts';
import type { ImageParts } from '../../catalog/parts.ts';
import { ImageRepair } from '../../catalog/repair.ts';
import { ImageSnapshots } from '../../catalog/snapshots.ts';
import { ImageVolumes } from '../../catalog/volumes.ts';
import { writeHealthFile } from '../../location/health-file.ts';
import type { OpenLocation } from '../../location/location.ts';
import type {
  Attached,
  Attachment,
  ChangedRangesRequest,
  Condition,
  GroupSpec,
  Pool,
  PoolCapabilities,
  PoolCapacity,
  PoolUsage,
  Seen,
  SeenVolume,
  SnapshotSpec,
  TrashedVolume,
  TrimOptions,
  VolumeChanges,
  VolumeSpec,
} from '../../pool.ts';
import { changedBlocks } from './changed-blocks.ts';
import { detachByPath, devicesByPath, volumeByPath } from './devices-by-path.ts';
import { ImageTrimmer } from './trimmer.ts';

/** What of a pool's configuration it only tells, and where it lives. */
export interface ImagePoolTraits {
  readonly defaultFilesystem: FilesystemType;
  readonly trimming: Trimming;
  readonly location: OpenLocation;
}

/** Volumes as image files in a directory, shown as disks through loop devices. */
export class ImagePool implements Pool {
  readonly kind = 'image';
  readonly capabilities: PoolCapabilities;
  readonly defaultFilesystem: FilesystemType;
  readonly trimming: Trimming;
  readonly #parts: ImageParts;
  readonly #volumes: ImageVolumes;
  readonly #deletion: ImageDeletion;
  readonly #snapshots: ImageSnapshots;
  readonly #repair: ImageRepair;
  readonly #trimmer: ImageTrimmer;
  readonly #location: OpenLocation;

  constructor(parts: ImageParts, options: ImagePoolTraits) {
    this.#parts = parts;
    this.#volumes = new ImageVolumes(parts);
    this.#deletion = new ImageDeletion(parts);
    this.#snapshots = new ImageSnapshots(parts);
    this.#repair = new ImageRepair(parts);
    this.#trimmer = new ImageTrimmer(parts);
    this.#location = options.location;
    this.defaultFilesystem = options.defaultFilesystem;
    this.trimming = options.trimming;
    this.capabilities = {
      block: true,
      directories: false,
      filesystems: filesystemTypes,
      provisioning: provisionings,
      snapshots: parts.maker.cloning,
      changedBlocks: parts.changedBlocks,
      expansion: { online: true, offline: true },
    };
  }

  get name(): string {
    return this.#parts.name;
  }

  get queue(): DiskQueue {
    return this.#parts.queue;
  }

  async find(id: VolumeId): Promise<VolumeRecord | undefined> {
    await this.#parts.unsettled.settle(id);
    return this.#parts.index.get(id);
  }

  async list(after: VolumeId | undefined, limit: number | undefined): Promise<VolumeRecord[]> {
    return this.#parts.index.list(after, limit);
  }

  async create(spec: VolumeSpec, source?: VolumeSource): Promise<VolumeRecord> {
    await this.#parts.unsettled.settle(spec.id, ...(source === undefined ? [] : [source.id]));
    return this.#volumes.create(spec, source);
  }

  async grow(id: VolumeId, sizeBytes: bigint): Promise<VolumeRecord> {
    await this.#parts.unsettled.settle(id);
    return this.#volumes.grow(id, sizeBytes);
  }

  async modify(id: VolumeId, changes: VolumeChanges): Promise<VolumeRecord> {
    await this.#parts.unsettled.settle(id);
    return this.#volumes.modify(id, changes);
  }

  async setPublication(id: VolumeId, publication: Publication | undefined): Promise<VolumeRecord> {
    await this.#parts.unsettled.settle(id);
    return this.#volumes.setPublication(id, publication);
  }

  async trim(id: VolumeId, options: TrimOptions): Promise<bigint | undefined> {
    const record = this.#parts.index.get(id);
    return record && (await this.#trimmer.trim(record, options));
  }

  async remove(id: VolumeId): Promise<void> {
    await this.#parts.unsettled.settle(id);
    return this.#deletion.remove(id);
  }

  trash(): Promise<TrashedVolume[]> {
    return this.#deletion.list();
  }

  async restore(id: VolumeId): Promise<VolumeRecord> {
    await this.#parts.unsettled.settle(id);
    return this.#deletion.restore(id);
  }

  purge(id?: VolumeId): Promise<VolumeId[]> {
    return this.#deletion.purge(id);
  }

  async cut(specs: readonly SnapshotSpec[], group?: GroupSpec): Promise<SnapshotRecord[]> {
    const groups = group === undefined ? [] : [group.id];
    await this.#parts.unsettled.settle(...groups, ...specs.flatMap(({ id, sourceId }) => [id, sourceId]));
    return this.#snapshots.cut(specs, group);
  }

  async findSnapshot(id: SnapshotId): Promise<SnapshotRecord | undefined> {
    await this.#parts.unsettled.settle(id);
    return this.#parts.snapshotIndex.get(id);
  }

  async listSnapshots(
    after: SnapshotId | undefined,
    limit: number | undefined,
    sourceId?: VolumeId,
  ): Promise<SnapshotRecord[]> {
    return this.#parts.snapshotIndex.list(after, limit, sourceId);
  }

  async removeSnapshot(id: SnapshotId): Promise<void> {
    await this.#parts.unsettled.settle(id);
    await this.#snapshots.remove(id);
  }

  changedRanges(request: ChangedRangesRequest): AsyncIterable<ByteRange> {
    return changedBlocks(this.#parts, request);
  }

  async findGroup(id: GroupId): Promise<GroupRecord | undefined> {
    await this.#parts.unsettled.settle(id);
    return this.#parts.snapshotIndex.getGroup(id);
  }

  async removeGroup(id: GroupId): Promise<void> {
    await this.#parts.unsettled.settle(id);
    await this.#snapshots.removeGroup(id);
  }

  async repair(id: VolumeId, fsType: FilesystemType): Promise<void> {
    await this.#parts.unsettled.settle(id);
    return this.#repair.repair(this.#volumes.require(id), fsType);
  }

  async attach(id: VolumeId, options: { persistent: boolean }): Promise<Attachment> {
    await this.#parts.unsettled.settle(id);
    const record = this.#volumes.require(id);
    this.#parts.space.willWrite(id);
    return this.#parts.devices.attach(record, options);
  }

  async attached(id: VolumeId): Promise<Attached[]> {
    const { devices, queue } = this.#parts;
    const isOpen = queue.closedFor === undefined;
    const found = isOpen ? await devices.list(id) : await queue.rescue((rescue) => devicesByPath(rescue, id));
    return found.map((device) => ({ kind: 'device', ...device }));
  }

  async detach(attached: Attached): Promise<void> {
    if (attached.kind !== 'device') return;
    const { devices, queue } = this.#parts;
    const { device } = attached;
    if (queue.closedFor === undefined) return devices.detach(device);
    const seen = await this.volumeSeen({ device, mount: undefined });
    if (seen !== undefined) await detachByPath(queue, device, seen.id);
  }

  async volumeSeen({ device, mount }: Seen): Promise<SeenVolume | undefined> {
    if (device === undefined) return undefined;
    const { devices, index, queue } = this.#parts;
    const isOpen = queue.closedFor === undefined;
    const id = isOpen ? await devices.volumeOf(device) : volumeByPath(device);
    if (id === undefined || !(isOpen || index.has(id))) return undefined;
    return { id, isWhole: mount === undefined || mount.root === '/' };
  }

  async capacity(): Promise<PoolCapacity> {
    return this.#parts.space.measure();
  }

  async usage(): Promise<PoolUsage> {
    const { devices, index, snapshotIndex, space, trash } = this.#parts;
    const [{ allocatedBytes, capacity, disk, trashedBytes }, isNearlyFull, deviceCounts] = await Promise.all([
      space.survey(),
      space.isNearlyFull(),
      devices.countByVolume(),
    ]);
    return {
      capacity,
      disk,
      isNearlyFull,
      volumes: Array.from(index.all(), (record) => ({
        record,
        usedBytes: allocatedBytes(record.id),
        devices: deviceCounts.get(record.id) ?? 0,
      })),
      snapshots: snapshotIndex.size,
      trash: { volumes: trash.entries().length, usedBytes: trashedBytes },
      damagedRecords: index.damagedCount + snapshotIndex.damagedCount,
    };
  }

  async quotaUsage(): Promise<undefined> {
    return undefined;
  }

  async condition(id: VolumeId): Promise<Condition> {
    const { index, queue, layout } = this.#parts;
    const record = index.get(id);
    if (record === undefined) return { abnormal: true, message: 'The pool has no record of this volume.' };
    // What the kernel has in its cache says nothing of a disk that is sick.
    if (queue.closedFor !== undefined) throw queue.closedFor;
    try {
      const image = await statusOf(queue, layout.data(id));
      if (image.sizeBytes >= record.sizeBytes) return await this.#repairCondition(record);
      return { abnormal: true, message: 'The image file is shorter than the volume: data is missing.' };
    } catch (error) {
      if (queue.closedFor !== undefined) throw queue.closedFor;
      if (isErrno(error, 'ENOENT')) return { abnormal: true, message: 'The image file is missing.' };
      return { abnormal: true, message: 'The image file cannot be read; see the kernel log of the node.' };
    }
  }

  async #spaceCondition(): Promise<Condition> {
    if (!(await this.#parts.space.isNearlyFull())) return { abnormal: false, message: 'The volume is healthy.' };
    const message = `The disk of pool ${this.name.slice(0, 24)} is nearly full: free some of it, or writes will fail.`;
    return { abnormal: true, message };
  }

  /** As long as what it was before can be looked at, somebody should. */
  async #repairCondition({ repair }: VolumeRecord): Promise<Condition> {
    const isKept = this.#parts.trash.entries().some((entry) => entry.record.id === repair?.originalId);
    if (repair === undefined || !isKept) return this.#spaceCondition();
    const message = `Its filesystem was damaged and has been repaired. The original is in the trash: ${repair.originalId}`;
    return { abnormal: true, message };
  }

  async checkHealth(queue: DiskQueue): Promise<void> {
    await writeHealthFile(queue, this.#parts.layout.root);
    await this.#parts.reserve.acquire(queue);
    // Behind the answer: to write what a much larger filesystem needs takes longer than a sick disk is waited for.
    void this.#followDisk();
  }

  async #followDisk(): Promise<void> {
    const { queue, log, name } = this.#parts;
    try {
      await this.#location.followDisk();
    } catch (error) {
      if (queue.closedFor !== undefined) return;
      log.error({ pool: name, err: error }, 'the disk of a pool has been enlarged, but its filesystem cannot follow');
    }
  }

  abandon(): void {
    this.#parts.trash.abandon();
    this.#location.abandon();
  }

  async close(): Promise<void> {
    await this.#parts.trash.close();
    await this.#location.close();
  }
}
