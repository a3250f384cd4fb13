import { mkdir, rename } from 'node:fs/promises';
import { format } from '../../command/mkfs.ts';
import type { DeviceNumber } from '../../kernel/device.ts';
import { isErrno } from '../../kernel/errno.ts';
import { allocate, type DirectorySync, resizeFile, syncFile } from '../../kernel/file.ts';
import type { Lane } from '../../kernel/lane.ts';
import { statusOf } from '../../kernel/path.ts';
import { AlreadyExists, FailedPrecondition, NotFound, ResourceExhausted } from '../../volume/errors.ts';
import { type FilesystemType, filesystemTypes } from '../../volume/filesystem.ts';
import type { VolumeId } from '../../volume/id.ts';
import { provisionings, serializeRecord, type VolumeRecord } from '../../volume/record.ts';
import { formatBytes } from '../../volume/size.ts';
import { step } from '../../volume/step.ts';
import type {
  AttachedDevice,
  Attachment,
  Condition,
  Pool,
  PoolCapabilities,
  PoolCapacity,
  VolumeSpec,
} from '../pool.ts';
import type { ImageDevices } from './devices.ts';
import { replaceFile, writeNewFile } from './durable-file.ts';
import type { Layout } from './layout.ts';
import type { RecordIndex } from './record-index.ts';
import type { SpaceLedger } from './space-ledger.ts';
import type { Trash } from './trash.ts';

const capabilities: PoolCapabilities = {
  block: true,
  filesystems: filesystemTypes,
  provisioning: provisionings,
  expansion: { online: true, offline: true },
};

/** What `openImagePool` puts together. */
export interface ImagePoolParts {
  readonly name: string;
  readonly lane: Lane;
  /** mkfs runs here: a child process takes no worker thread, but a dead disk must not collect hundreds of them. */
  readonly formatLane: Lane;
  readonly layout: Layout;
  readonly blockSizeBytes: number;
  readonly defaultFilesystem: FilesystemType;
  readonly index: RecordIndex;
  readonly space: SpaceLedger;
  readonly devices: ImageDevices;
  readonly trash: Trash;
  readonly syncs: DirectorySync;
  readonly closeHome: () => Promise<void>;
}

/** Volumes as image files in a directory, shown as disks through loop devices. */
export class ImagePool implements Pool {
  readonly kind = 'image';
  readonly capabilities = capabilities;
  readonly #parts: ImagePoolParts;

  constructor(parts: ImagePoolParts) {
    this.#parts = parts;
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
  async create(spec: VolumeSpec): Promise<VolumeRecord> {
    const { index, lane, layout, space, trash } = this.#parts;
    if (index.get(spec.id) !== undefined) throw new AlreadyExists(`volume ${spec.id} exists already.`);
    const record: VolumeRecord = {
      id: spec.id,
      name: spec.name,
      sizeBytes: spec.sizeBytes,
      content: spec.content,
      accessModes: spec.accessModes,
      provisioning: spec.provisioning,
      parameters: spec.parameters,
      blockSizeBytes: this.#parts.blockSizeBytes,
      createdAt: new Date().toISOString(),
    };
    const draft = layout.newDraft(spec.id);
    using _space = await space.reserve(spec.sizeBytes);
    let place = draft.directory;
    try {
      await step('create/directory', () => lane.run(() => mkdir(draft.directory, { mode: 0o700 })));
      await this.#makeImage(spec, draft.data);
      await step('create/record', () => writeNewFile(lane, draft.record, serializeRecord(record)));
      await this.#parts.syncs.sync(lane, draft.directory);
      await step('create/commit', async () => {
        await lane.run(() => rename(draft.directory, layout.volume(spec.id)));
        place = layout.volume(spec.id);
        await this.#parts.syncs.sync(lane, layout.volumes);
      });
    } catch (error) {
      trash.purge(place);
      throw this.#explain(error, spec.sizeBytes);
    }
    index.put(record);
    return record;
  }

  async remove(id: VolumeId): Promise<void> {
    const { devices, index, lane, layout, syncs, trash } = this.#parts;
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
    const { devices, index, lane, layout, space, syncs } = this.#parts;
    const record = this.#existing(id);
    const grown = { ...record, sizeBytes };
    if (sizeBytes > record.sizeBytes) {
      using _space = await space.reserve(sizeBytes - record.sizeBytes);
      try {
        await step('grow/data', () => this.#setSize(layout.data(id), grown));
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

  async #makeImage(spec: VolumeSpec, path: string): Promise<void> {
    const { blockSizeBytes, formatLane, lane } = this.#parts;
    const { content } = spec;
    await step('create/data', async () => {
      await writeNewFile(lane, path, '');
      await this.#setSize(path, spec);
    });
    if (content.type === 'block') return;
    await step('create/format', () =>
      formatLane.run(() =>
        format({ path, fsType: content.fsType, blockSizeBytes, extraArguments: spec.mkfsArguments }),
      ),
    );
    await syncFile(lane, path);
  }

  async #setSize(path: string, { provisioning, sizeBytes }: Pick<VolumeRecord, 'provisioning' | 'sizeBytes'>) {
    const { lane } = this.#parts;
    if (provisioning === 'thick') await allocate(lane, path, sizeBytes);
    await resizeFile(lane, path, sizeBytes);
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
