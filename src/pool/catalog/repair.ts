import { mkdir, rename } from 'node:fs/promises';
import { join } from 'node:path';
import { checkBtrfs, repairExt4, repairXfs } from '../../command/fsck.ts';
import { CommandError } from '../../command/run.ts';
import { KernelError } from '../../kernel/call/errno.ts';
import { syncFile } from '../../kernel/file/file.ts';
import { reflink } from '../../kernel/file/filesystem.ts';
import { DataLoss } from '../../volume/errors.ts';
import type { FilesystemType } from '../../volume/filesystem.ts';
import { type VolumeId, volumeIdFor } from '../../volume/id.ts';
import { serializeRecord, type VolumeRecord } from '../../volume/record.ts';
import { step } from '../../volume/step.ts';
import { mountBriefly, type PrivateImage, withDevice } from '../filesystem/brief-mount.ts';
import { replaceFile, writeNewFile } from '../records/durable-file.ts';
import { attachedHere } from './in-use.ts';
import type { ImageParts } from './parts.ts';
import { deletedNow, deletionFileName, originalName, type TrashEntry } from './trash-entry.ts';

/** How long the original is kept at least: somebody has to notice, and to compare. */
const keptSeconds = 14 * 86_400;

const commands: Readonly<Record<FilesystemType, string>> = {
  ext4: 'e2fsck -f',
  xfs: 'xfs_repair -f',
  btrfs: 'btrfs check',
};

/** Mends the filesystem of a volume that nobody uses, on a clone, so that a repair that goes wrong has harmed nothing. */
export class ImageRepair {
  readonly #parts: ImageParts;

  constructor(parts: ImageParts) {
    this.#parts = parts;
  }

  /**
   * Clone, check, repair, mount the clone to see that it can be; only then the original goes into the trash, as a volume
   * of its own that can be brought back, and the clone takes its place.
   * @throws DataLoss if it cannot be repaired, or no clone is possible: then nothing has changed
   */
  async repair(record: VolumeRecord, fsType: FilesystemType): Promise<void> {
    const { devices, queue, layout, log, maker, name, space, trash } = this.#parts;
    const { id } = record;
    const device = await devices.holder(id);
    if (device !== undefined) throw await attachedHere(id, device);
    if (maker.cloning !== 'reflink') throw notHere(id, fsType, name, layout.data(id));
    log.warn({ pool: name, volume_id: id, filesystem: fsType }, 'a filesystem is damaged: it is checked on a clone');
    using _space = await space.hold({ newBytes: 0n, sourceIds: [id] });
    const directory = layout.newDraft(id);
    const image = { path: join(directory, 'data'), fsType, blockSizeBytes: record.blockSizeBytes };
    try {
      await step('repair/clone', async () => {
        await queue.run(() => mkdir(directory, { mode: 0o700 }));
        await reflink(queue, layout.data(id), image.path);
      });
      await step('repair/check', () => this.#mend(id, image));
      const original = await this.#keepOriginal(record);
      await this.#replace(
        { ...record, repair: { at: original.deletedAt, originalId: original.record.id } },
        image.path,
      );
      log.warn(
        { pool: name, volume_id: id, original_id: original.record.id },
        'a filesystem was repaired; the original is in the trash',
      );
    } finally {
      trash.purge(directory);
    }
  }

  async #mend(id: VolumeId, image: PrivateImage): Promise<void> {
    const { queue, programs } = this.#parts;
    const { fsType, path } = image;
    const mount = () =>
      withDevice(queue, image, (device) => mountBriefly(queue, fsType, device, fsType === 'xfs' ? [['nouuid']] : []));
    try {
      if (fsType === 'ext4') await programs.run(() => repairExt4(path));
      else if (fsType === 'xfs') await programs.run(() => repairXfs(path, mount));
      else await programs.run(() => checkBtrfs(path));
      await mount();
      await syncFile(queue, path);
    } catch (error) {
      if (!(error instanceof CommandError || error instanceof KernelError) || queue.closedFor !== undefined)
        throw error;
      throw new DataLoss(
        `volume ${id}: its ${fsType} is damaged and could not be repaired on a clone (${error.message}). It is left as it is: try ${commands[fsType]} on a copy of ${this.#parts.layout.data(id)}, or restore a snapshot or backup.`,
      );
    }
  }

  /** A clone too, so that it has a life of its own from the start; whether the repaired one ever takes its place or not. */
  async #keepOriginal(damaged: VolumeRecord): Promise<TrashEntry> {
    const { queue, layout, name, syncs, trash, undeleteSeconds, unsettled } = this.#parts;
    const deletion = deletedNow(Math.max(keptSeconds, damaged.undeleteSeconds ?? undeleteSeconds), trash.poolAgeMs);
    const { deletedAt } = deletion;
    const { ephemeral: _ephemeral, publication: _publication, repair: _repair, ...rest } = damaged;
    const id = volumeIdFor('before repair', name, `${damaged.id} ${deletedAt}`);
    const record: VolumeRecord = {
      ...rest,
      id,
      name: originalName(damaged.name, deletedAt),
      source: { type: 'volume', id: damaged.id },
    };
    const draft = layout.newDraft(id);
    const path = layout.newTrash(id);
    await step('repair/keep', async () => {
      await queue.run(() => mkdir(draft, { mode: 0o700 }));
      await reflink(queue, layout.data(damaged.id), join(draft, 'data'));
      await syncFile(queue, join(draft, 'data'));
      await writeNewFile(queue, join(draft, 'volume.json'), serializeRecord(record));
      await writeNewFile(queue, join(draft, deletionFileName), JSON.stringify(deletion));
      await syncs.sync(queue, draft);
      await queue.run(() => rename(draft, path));
      await syncs.sync(queue, layout.trash);
    }).catch(async (error) => {
      trash.purge(draft);
      await unsettled.recheck([id]);
      throw error;
    });
    const entry = { ...deletion, path, record };
    trash.keep(entry);
    return entry;
  }

  /** The record first: cut short in between, the next stage repairs again, and never goes without a word. */
  async #replace(repaired: VolumeRecord, imagePath: string): Promise<void> {
    const { index, queue, layout, space, syncs, unsettled } = this.#parts;
    const { id } = repaired;
    await unsettled.change([id], () =>
      step('repair/record', () => replaceFile(queue, syncs, layout.record(id), serializeRecord(repaired))),
    );
    index.put(repaired);
    try {
      await step('repair/commit', async () => {
        await queue.run(() => rename(imagePath, layout.data(id)));
        await syncs.sync(queue, layout.volume(id));
      });
    } finally {
      // Also if it is the sync that failed.
      space.hasChanged(id);
    }
  }
}

function notHere(id: VolumeId, fsType: FilesystemType, poolName: string, path: string): DataLoss {
  return new DataLoss(
    `volume ${id}: its ${fsType} is damaged, and pool ${poolName} cannot repair it on a clone, as its own filesystem cannot share blocks. It is left as it is. Copy ${path} if there is room for that, then: ${commands[fsType]} ${path}`,
  );
}
