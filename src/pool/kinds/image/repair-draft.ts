import { mkdir, rename } from 'node:fs/promises';
import { join } from 'node:path';
import { CommandError } from '../../../command/run.ts';
import { mountBriefly, withDevice } from '../../../filesystems/brief-mount.ts';
import { repairCommands, repairFilesystem } from '../../../filesystems/repair.ts';
import { KernelError } from '../../../kernel/call/errno.ts';
import { syncFile } from '../../../kernel/file/file.ts';
import { reflink } from '../../../kernel/file/filesystem.ts';
import { DataLoss } from '../../../volume/errors.ts';
import type { FilesystemType } from '../../../volume/filesystem.ts';
import { serializeRecord, type VolumeRecord } from '../../../volume/record.ts';
import type { RepairDraft } from '../../backend.ts';
import type { Deletion, TrashRef } from '../../indexes/trash-entry.ts';
import { writeNewFile } from '../../records/durable-file.ts';
import { deletionFileName } from '../../records/trash-files.ts';
import type { ImageParts } from './image-backend.ts';

/** A clone of a damaged image, in tmp/. */
export class ImageRepairDraft implements RepairDraft {
  readonly #parts: ImageParts;
  readonly #record: VolumeRecord;
  readonly #fsType: FilesystemType;
  readonly #directory: string;
  readonly #path: string;
  readonly #drafts: TrashRef[];

  constructor(parts: ImageParts, record: VolumeRecord, fsType: FilesystemType) {
    this.#parts = parts;
    this.#record = record;
    this.#fsType = fsType;
    this.#directory = parts.layout.newDraft(record.id);
    this.#path = join(this.#directory, 'data');
    this.#drafts = [this.#directory];
  }

  async clone(): Promise<void> {
    const { layout, queue } = this.#parts;
    await queue.run(() => mkdir(this.#directory, { mode: 0o700 }));
    await reflink(queue, layout.data(this.#record.id), this.#path);
  }

  async withDevice<T>(work: (devicePath: string) => Promise<T>): Promise<T> {
    const { queue } = this.#parts;
    const result = await withDevice(queue, { path: this.#path, blockSizeBytes: this.#record.blockSizeBytes }, work);
    await syncFile(queue, this.#path);
    return result;
  }

  async fix(): Promise<void> {
    const { layout, programs, queue } = this.#parts;
    const { blockSizeBytes, id } = this.#record;
    const fsType = this.#fsType;
    const image = { path: this.#path, fsType, blockSizeBytes };
    const mount = () =>
      withDevice(queue, image, (device) => mountBriefly(queue, fsType, device, fsType === 'xfs' ? [['nouuid']] : []));
    try {
      await repairFilesystem(programs, { ...image, mount });
      await syncFile(queue, image.path);
    } catch (error) {
      if (!(error instanceof CommandError || error instanceof KernelError) || queue.closedFor !== undefined)
        throw error;
      throw new DataLoss(
        `volume ${id}: its ${fsType} is damaged and could not be repaired on a clone (${error.message}). It is left as it is: try ${repairCommands[fsType]} on a copy of ${layout.data(id)}, or restore a snapshot or backup.`,
      );
    }
  }

  async keepOriginal(original: VolumeRecord, deletion: Deletion): Promise<TrashRef> {
    const { layout, queue, syncs } = this.#parts;
    const draft = layout.newDraft(original.id);
    const ref = layout.newTrash(original.id);
    this.#drafts.push(draft);
    await queue.run(() => mkdir(draft, { mode: 0o700 }));
    await reflink(queue, layout.data(this.#record.id), join(draft, 'data'));
    await syncFile(queue, join(draft, 'data'));
    await writeNewFile(queue, join(draft, 'volume.json'), serializeRecord(original));
    await writeNewFile(queue, join(draft, deletionFileName), JSON.stringify(deletion));
    await syncs.sync(queue, draft);
    await queue.run(() => rename(draft, ref));
    this.#drafts.pop();
    await syncs.sync(queue, layout.trash);
    return ref;
  }

  async replace(): Promise<void> {
    const { layout, queue, syncs } = this.#parts;
    const { id } = this.#record;
    await queue.run(() => rename(this.#path, layout.data(id)));
    await syncs.sync(queue, layout.volume(id));
  }

  async discard(): Promise<TrashRef[]> {
    return this.#drafts;
  }
}
