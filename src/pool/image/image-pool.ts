import { mkdir, rename } from 'node:fs/promises';
import { join } from 'node:path';
import type { DeviceNumber } from '../../kernel/device.ts';
import { isErrno } from '../../kernel/errno.ts';
import type { DirectorySync } from '../../kernel/file.ts';
import type { Lane } from '../../kernel/lane.ts';
import { statusOf } from '../../kernel/path.ts';
import { AlreadyExists, FailedPrecondition, NotFound, ResourceExhausted } from '../../volume/errors.ts';
import { type FilesystemType, filesystemTypes } from '../../volume/filesystem.ts';
import type { GroupId, SnapshotId, VolumeId } from '../../volume/id.ts';
import { provisionings, serializeRecord, type VolumeRecord, type VolumeSource } from '../../volume/record.ts';
import { formatBytes } from '../../volume/size.ts';
import type { GroupRecord, SnapshotRecord } from '../../volume/snapshot-record.ts';
import { step } from '../../volume/step.ts';
import type {
  AttachedDevice,
  Attachment,
  Condition,
  GroupSpec,
  Pool,
  PoolCapabilities,
  PoolCapacity,
  SnapshotSpec,
  VolumeSpec,
} from '../pool.ts';
import type { ImageDevices } from './devices.ts';
import { replaceFile, writeNewFile } from './durable-file.ts';
import type { Freezer } from './freezer.ts';
import type { ImageMaker, ImageSource } from './image-maker.ts';
import type { Layout } from './layout.ts';
import type { RecordIndex } from './record-index.ts';
import type { SnapshotIndex } from './snapshot-index.ts';
import { copyInUse, type ImageSnapshots } from './snapshots.ts';
import type { SpaceLedger } from './space-ledger.ts';
import type { Trash } from './trash.ts';

/** What `openImagePool` puts together. */
export interface ImagePoolParts {
  readonly name: string;
  readonly lane: Lane;
  readonly layout: Layout;
  readonly blockSizeBytes: number;
  readonly defaultFilesystem: FilesystemType;
  readonly index: RecordIndex;
  readonly snapshotIndex: SnapshotIndex;
  readonly space: SpaceLedger;
  readonly devices: ImageDevices;
  readonly freezer: Freezer;
  readonly maker: ImageMaker;
  readonly snapshots: ImageSnapshots;
  readonly trash: Trash;
  readonly syncs: DirectorySync;
  readonly closeHome: () => Promise<void>;
}

/** Volumes as image files in a directory, shown as disks through loop devices. */
export class ImagePool implements Pool {
  readonly kind = 'image';
  readonly capabilities: PoolCapabilities;
  readonly #parts: ImagePoolParts;

  constructor(parts: ImagePoolParts) {
    this.#parts = parts;
    this.capabilities = {
      block: true,
      filesystems: filesystemTypes,
      provisioning: provisionings,
      snapshots: parts.maker.cloning,
      expansion: { online: true, offline: true },
    };
  }

  get name(): string {
    return this.#parts.name;
  }

  get lane(): Lane {
    return this.#parts.lane;
  }

  get defaultFilesystem(): FilesystemType {
    return this.#parts.defaultFilesystem;
  }

  async find(id: VolumeId): Promise<VolumeRecord | undefined> {
    return this.#parts.index.get(id);
  }

  async list(after: VolumeId | undefined, limit: number | undefined): Promise<VolumeRecord[]> {
    return this.#parts.index.list(after, limit);
  }

  /** Made in tmp/ and renamed when whole: before the rename nothing exists, after it everything does. */
  async create(spec: VolumeSpec, source?: VolumeSource): Promise<VolumeRecord> {
    const { index, lane, layout, maker, space, syncs, trash } = this.#parts;
    if (index.get(spec.id) !== undefined) throw new AlreadyExists(`volume ${spec.id} exists already.`);
    const from = source === undefined ? undefined : this.#imageOf(source);
    const record: VolumeRecord = {
      id: spec.id,
      name: spec.name,
      sizeBytes: spec.sizeBytes,
      content: spec.content,
      accessModes: spec.accessModes,
      provisioning: spec.provisioning,
      parameters: spec.parameters,
      blockSizeBytes: from?.blockSizeBytes ?? this.#parts.blockSizeBytes,
      createdAt: new Date().toISOString(),
      ...(source === undefined ? {} : { source }),
    };
    const isCopy = source !== undefined && maker.cloning === 'copy';
    const directory = isCopy ? layout.copyDraft(spec.id) : layout.newDraft(spec.id);
    const data = join(directory, 'data');
    let place = directory;
    using _space = await space.reserveSharing(source?.type === 'volume' ? [source.id] : [], spec.sizeBytes);
    try {
      await step('create/directory', () => lane.run(() => mkdir(directory, { mode: 0o700, recursive: isCopy })));
      if (from === undefined) await maker.blank(spec, data, this.#parts.blockSizeBytes);
      else await this.#cloneInto(spec, from, data);
      await step('create/record', () => writeNewFile(lane, join(directory, 'volume.json'), serializeRecord(record)));
      await syncs.sync(lane, directory);
      await step('create/commit', async () => {
        await lane.run(() => rename(directory, layout.volume(spec.id)));
        place = layout.volume(spec.id);
        await syncs.sync(lane, layout.volumes);
      });
    } catch (error) {
      // A copy is kept: the retry goes on with it.
      if (!isCopy || place !== directory) trash.purge(place);
      throw this.#explain(error, spec.sizeBytes);
    }
    index.put(record);
    return record;
  }

  async remove(id: VolumeId): Promise<void> {
    const { devices, index, lane, layout, syncs, trash } = this.#parts;
    trash.purge(layout.copyDraft(id));
    if (index.get(id) === undefined) return;
    const [device] = await devices.list(id);
    if (device !== undefined) {
      throw new FailedPrecondition(
        `volume ${id} is in use on this node through ${device.devicePath}: unpublish and unstage it first.`,
      );
    }
    const trashed = layout.newTrash(id);
    await step('remove/trash', async () => {
      try {
        await lane.run(() => rename(layout.volume(id), trashed));
      } catch (error) {
        // Removed by hand: what remains to be done is to forget it (DV05).
        if (!isErrno(error, 'ENOENT')) throw error;
      }
      await Promise.all([syncs.sync(lane, layout.volumes), syncs.sync(lane, layout.trash)]);
    });
    index.delete(id);
    trash.purge(trashed);
  }

  /** The image grows before the record says so: a crash in between leaves an image that is a little too large. */
  async grow(id: VolumeId, sizeBytes: bigint): Promise<VolumeRecord> {
    const { devices, index, lane, layout, maker, space, syncs } = this.#parts;
    const record = this.#existing(id);
    const grown = { ...record, sizeBytes };
    if (sizeBytes > record.sizeBytes) {
      using _space = await space.reserve(sizeBytes - record.sizeBytes);
      try {
        await step('grow/data', () => maker.setSize(layout.data(id), grown));
        await step('grow/record', () => replaceFile(lane, syncs, layout.record(id), serializeRecord(grown)));
      } catch (error) {
        throw this.#explain(error, sizeBytes);
      }
      index.put(grown);
    }
    // Also on a replay: the first try may have died before its devices knew.
    await devices.refreshSize(id);
    return this.#existing(id);
  }

  async cut(specs: readonly SnapshotSpec[], group?: GroupSpec): Promise<SnapshotRecord[]> {
    return this.#parts.snapshots.cut(specs, group);
  }

  async findSnapshot(id: SnapshotId): Promise<SnapshotRecord | undefined> {
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
    await this.#parts.snapshots.remove(id);
  }

  async findGroup(id: GroupId): Promise<GroupRecord | undefined> {
    return this.#parts.snapshotIndex.getGroup(id);
  }

  async removeGroup(id: GroupId): Promise<void> {
    await this.#parts.snapshots.removeGroup(id);
  }

  async attach(id: VolumeId, options: { lasting: boolean; readonly: boolean }): Promise<Attachment> {
    return this.#parts.devices.attach(this.#existing(id), options);
  }

  async devices(id: VolumeId): Promise<AttachedDevice[]> {
    return this.#parts.devices.list(id);
  }

  async detach(device: DeviceNumber): Promise<void> {
    await this.#parts.devices.detach(device);
  }

  async volumeOfDevice(device: DeviceNumber): Promise<VolumeId | undefined> {
    return this.#parts.devices.volumeOf(device);
  }

  async capacity(): Promise<PoolCapacity> {
    return this.#parts.space.measure();
  }

  async condition(id: VolumeId): Promise<Condition> {
    const { index, lane, layout } = this.#parts;
    const record = index.get(id);
    if (record === undefined) return { abnormal: true, message: 'The pool has no record of this volume.' };
    try {
      const image = await statusOf(lane, layout.data(id));
      if (image.sizeBytes >= record.sizeBytes) return { abnormal: false, message: 'The volume is healthy.' };
      return { abnormal: true, message: 'The image file is shorter than the volume: data is missing.' };
    } catch (error) {
      if (isErrno(error, 'ENOENT')) return { abnormal: true, message: 'The image file is missing.' };
      return { abnormal: true, message: 'The image file cannot be read; see the kernel log of the node.' };
    }
  }

  async close(): Promise<void> {
    await this.#parts.trash.drained();
    await this.#parts.closeHome();
  }

  async #cloneInto(spec: VolumeSpec, from: ImageSource & { readonly volumeId: VolumeId | undefined }, data: string) {
    const { devices, freezer, maker } = this.#parts;
    const { volumeId } = from;
    const attached = volumeId === undefined ? [] : await devices.list(volumeId);
    if (volumeId !== undefined && maker.cloning === 'copy' && attached.length > 0) throw copyInUse(volumeId, this.name);
    const targets = volumeId === undefined ? [] : [{ volumeId, devices: attached }];
    await step('create/clone', () => freezer.whileFrozen(targets, () => maker.clone(from, data)));
    await step('create/identity', () => maker.adopt(spec, from, data));
  }

  #imageOf(source: VolumeSource): ImageSource & { readonly volumeId: VolumeId | undefined } {
    const { layout, snapshotIndex } = this.#parts;
    if (source.type === 'volume') {
      return { ...this.#existing(source.id), path: layout.data(source.id), volumeId: source.id };
    }
    const snapshot = snapshotIndex.get(source.id);
    if (snapshot === undefined) throw new NotFound(`There is no snapshot ${source.id} in pool ${this.name}.`);
    return { ...snapshot, path: layout.snapshotData(source.id), volumeId: undefined };
  }

  #existing(id: VolumeId): VolumeRecord {
    const record = this.#parts.index.get(id);
    if (record === undefined) throw new NotFound(`There is no volume ${id} in pool ${this.name}.`);
    return record;
  }

  #explain(error: unknown, sizeBytes: bigint): unknown {
    if (isErrno(error, 'ENOSPC', 'EDQUOT')) {
      return new ResourceExhausted(
        `pool ${this.name} has no room for ${formatBytes(sizeBytes)} (its filesystem is full): delete volumes or give it more space.`,
      );
    }
    return error;
  }
}
