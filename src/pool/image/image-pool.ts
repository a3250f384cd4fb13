import { mkdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { DeviceNumber } from '../../kernel/device.ts';
import { isErrno } from '../../kernel/errno.ts';
import type { DirectorySync } from '../../kernel/file.ts';
import { trim } from '../../kernel/filesystem.ts';
import type { Lane } from '../../kernel/lane.ts';
import { readMountTable } from '../../kernel/mount-table.ts';
import { statusOf } from '../../kernel/path.ts';
import { AlreadyExists, FailedPrecondition, NotFound, ResourceExhausted } from '../../volume/errors.ts';
import { type FilesystemType, filesystemTypes } from '../../volume/filesystem.ts';
import type { GroupId, SnapshotId, VolumeId } from '../../volume/id.ts';
import { provisionings, serializeRecord, type VolumeRecord, type VolumeSource } from '../../volume/record.ts';
import { formatBytes, larger } from '../../volume/size.ts';
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
  TrashedVolume,
  VolumeChanges,
  VolumeSpec,
} from '../pool.ts';
import type { ImageDevices } from './devices.ts';
import { replaceFile, writeNewFile } from './durable-file.ts';
import type { Freezer } from './freezer.ts';
import type { ImageMaker, ImageSource } from './image-maker.ts';
import type { Layout } from './layout.ts';
import { openMounted } from './mounted.ts';
import type { RecordIndex } from './record-index.ts';
import type { SnapshotIndex } from './snapshot-index.ts';
import { copyInUse, type ImageSnapshots } from './snapshots.ts';
import type { SpaceLedger } from './space-ledger.ts';
import type { Trash } from './trash.ts';
import { type Deletion, deletionFileName } from './trash-entry.ts';
import { punchUnwritten } from './unwritten.ts';

/** What `openImagePool` puts together. */
export interface ImagePoolParts {
  readonly name: string;
  readonly lane: Lane;
  readonly layout: Layout;
  readonly blockSizeBytes: number;
  readonly defaultFilesystem: FilesystemType;
  /** For volumes that do not say; 0: deleted is gone. */
  readonly undeleteSeconds: number;
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
      ...(spec.undeleteSeconds === undefined ? {} : { undeleteSeconds: spec.undeleteSeconds }),
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
    const record = index.get(id);
    if (record === undefined) return;
    const [device] = await devices.list(id);
    if (device !== undefined) {
      throw new FailedPrecondition(
        `volume ${id} is in use on this node through ${device.devicePath}: unpublish and unstage it first.`,
      );
    }
    const deletion = await this.#markDeletion(record);
    const trashed = layout.newTrash(id);
    await step('remove/trash', async () => {
      // Removed by hand: what remains to be done is to forget it (DV05).
      await lane.run(() => rename(layout.volume(id), trashed)).catch(ignoreMissing);
      await Promise.all([syncs.sync(lane, layout.volumes), syncs.sync(lane, layout.trash)]);
    });
    index.delete(id);
    if (deletion === undefined) trash.purge(trashed);
    else trash.keep({ ...deletion, path: trashed, record });
  }

  async trash(): Promise<TrashedVolume[]> {
    const { lane, trash } = this.#parts;
    return Promise.all(
      trash.entries().map(async ({ deletedAt, path, purgeAt, record }) => {
        const image = await statusOf(lane, join(path, 'data')).catch(() => undefined);
        return { record, deletedAt, purgeAt, usedBytes: image?.allocatedBytes ?? 0n };
      }),
    );
  }

  /** One rename, and it is as if it had never been deleted. */
  async restore(id: VolumeId): Promise<VolumeRecord> {
    const { index, lane, layout, space, syncs, trash } = this.#parts;
    if (index.get(id) !== undefined) throw new AlreadyExists(`volume ${id} exists: there is nothing to restore.`);
    const entry = trash.entries().find(({ record }) => record.id === id);
    if (entry === undefined) throw new NotFound(`There is no volume ${id} in the trash of pool ${this.name}.`);
    trash.forget(entry);
    try {
      // What it has written it still has.
      const { allocatedBytes } = await statusOf(lane, join(entry.path, 'data'));
      using _space = await space.reserve(larger(0n, entry.record.sizeBytes - allocatedBytes));
      await step('restore/commit', async () => {
        await lane.run(() => rename(entry.path, layout.volume(id)));
        await Promise.all([syncs.sync(lane, layout.volumes), syncs.sync(lane, layout.trash)]);
      });
      index.put(entry.record);
    } catch (error) {
      trash.keep(entry);
      throw error;
    }
    return entry.record;
  }

  async purge(id?: VolumeId): Promise<VolumeId[]> {
    const purged = this.#parts.trash.purgeKept(id);
    await this.#parts.trash.drained();
    return purged;
  }

  async modify(id: VolumeId, changes: VolumeChanges): Promise<VolumeRecord> {
    const { index, lane, layout, maker, syncs } = this.#parts;
    const record = this.#existing(id);
    const { provisioning = record.provisioning, undeleteSeconds = record.undeleteSeconds } = changes;
    const modified = { ...record, provisioning, ...(undeleteSeconds === undefined ? {} : { undeleteSeconds }) };
    try {
      // Also if the record says so already: a first try may have died in between.
      if (changes.provisioning === 'thick') await step('modify/data', () => maker.setSize(layout.data(id), modified));
      if (changes.provisioning === 'thin') await step('modify/data', () => this.#releaseUnwritten(record));
      await step('modify/record', () => replaceFile(lane, syncs, layout.record(id), serializeRecord(modified)));
    } catch (error) {
      throw this.#explain(error, record.sizeBytes);
    }
    index.put(modified);
    return modified;
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
    await this.#parts.trash.close();
    await this.#parts.closeHome();
  }

  /** Written before the rename that deletes: what lies in the trash without this mark is unlinked. */
  async #markDeletion({
    id,
    undeleteSeconds = this.#parts.undeleteSeconds,
  }: VolumeRecord): Promise<Deletion | undefined> {
    const { lane, layout, syncs } = this.#parts;
    const path = join(layout.volume(id), deletionFileName);
    try {
      if (undeleteSeconds === 0) {
        await lane.run(() => rm(path, { force: true }));
        return undefined;
      }
      const now = Date.now();
      const deletion = {
        deletedAt: new Date(now).toISOString(),
        purgeAt: new Date(now + undeleteSeconds * 1000).toISOString(),
      };
      await replaceFile(lane, syncs, path, JSON.stringify(deletion));
      return deletion;
    } catch (error) {
      // Removed by hand: nothing is left to be kept.
      ignoreMissing(error);
      return undefined;
    }
  }

  /**
   * Gives back blocks that were reserved but never written. Of a filesystem in use it is the filesystem that knows what
   * is free, and says so to its device (FITRIM); to look for holes from outside would race with its writes.
   */
  async #releaseUnwritten({ content, id }: VolumeRecord): Promise<void> {
    const { devices, lane, layout } = this.#parts;
    const [device] = (await devices.list(id)).filter((each) => !each.readonly);
    if (device === undefined) return punchUnwritten(lane, layout.data(id));
    const mounted = content.type === 'mount' ? await openMounted(lane, await readMountTable(lane), device) : undefined;
    if (mounted === undefined) {
      throw new FailedPrecondition(
        `volume ${id} is in use as a raw block device, so its unwritten blocks cannot be released now: stop its pod first.`,
      );
    }
    await using directory = mounted;
    await trim(lane, directory.procPath);
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

function ignoreMissing(error: unknown): void {
  if (!isErrno(error, 'ENOENT')) throw error;
}
