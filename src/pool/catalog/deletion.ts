import { rename, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { ignoreMissing } from '../../kernel/call/errno.ts';
import { statusOf } from '../../kernel/file/path.ts';
import { type Mount, readMountTable } from '../../kernel/mount/mount-table.ts';
import { AlreadyExists, NotFound } from '../../volume/errors.ts';
import { finishAll } from '../../volume/finish-all.ts';
import type { VolumeId } from '../../volume/id.ts';
import type { VolumeRecord } from '../../volume/record.ts';
import { step } from '../../volume/step.ts';
import { isMountOf } from '../freeze/mounted.ts';
import type { TrashedVolume } from '../pool.ts';
import { replaceFile } from '../records/durable-file.ts';
import { unlessGone } from '../records/gone.ts';
import { attachedHere } from './in-use.ts';
import type { ImageParts } from './parts.ts';
import { type Deletion, deletedNow, deletionFileName, purgeTime } from './trash-entry.ts';

/** How volumes go, and how they come back. */
export class ImageDeletion {
  readonly #parts: ImageParts;

  constructor(parts: ImageParts) {
    this.#parts = parts;
  }

  async remove(id: VolumeId): Promise<void> {
    const { reserve, devices, index, queue, layout, maker, trash, unsettled } = this.#parts;
    const record = index.get(id);
    if (record === undefined) {
      // A copy that was on its way is not wanted any more.
      if (maker.cloning === 'copy') await trash.discard(layout.copyDraft(id), layout.newTrash(id));
      return;
    }
    const { undeleteSeconds = this.#parts.undeleteSeconds } = record;
    // Nobody asks for the mark before the volume is in the trash, so an old one can go while we look who has the volume.
    const unmarked = undeleteSeconds === 0 ? this.#removeMark(id) : Promise.resolve();
    const [device] = await finishAll([devices.holder(id), unmarked.then(() => undefined)]);
    if (device !== undefined) throw await attachedHere(id, device);
    const deletion = undeleteSeconds === 0 ? undefined : await this.#markDeletion(id, undeleteSeconds);
    const trashed = layout.newTrash(id);
    await unsettled.change([id], () =>
      step('remove/trash', async () => {
        // Removed by hand: what remains to be done is to forget it (DV05).
        const path = layout.volume(id);
        await unlessGone(queue, path, () => reserve.withReserve(queue, () => queue.run(() => rename(path, trashed))));
        await syncBoth(this.#parts);
      }),
    );
    index.delete(id);
    devices.forget(id);
    if (deletion === undefined) trash.purge(trashed);
    else trash.keep({ ...deletion, path: trashed, record });
  }

  /**
   * Removes ephemeral volumes that nothing on this node uses: their mounts went with a crash or a reboot, and who still
   * wants one has it made anew.
   */
  async removeUnusedEphemeral(): Promise<VolumeId[]> {
    const { index, queue, log, name } = this.#parts;
    const table = await readMountTable(queue);
    const removed = Array.from(index.all(), async ({ ephemeral, id }) => {
      if (ephemeral === undefined || (await this.#isMounted(id, table))) return [];
      try {
        await this.remove(id);
        return [id];
      } catch (error) {
        // In use in another mount namespace, say: its unpublish is still to come, or the next start.
        log.warn({ pool: name, volume_id: id, err: error }, 'cannot remove an ephemeral volume');
        return [];
      }
    });
    return (await Promise.all(removed)).flat();
  }

  async #isMounted(id: VolumeId, table: readonly Mount[]): Promise<boolean> {
    const devices = await this.#parts.devices.list(id);
    return devices.some((device) => table.some((mount) => isMountOf(mount, device)));
  }

  async list(): Promise<TrashedVolume[]> {
    const { queue, trash } = this.#parts;
    return Promise.all(
      trash.entries().map(async (entry) => {
        const { deletedAt, path, record } = entry;
        const image = await statusOf(queue, join(path, 'data')).catch(() => undefined);
        return {
          record,
          deletedAt,
          purgeAt: purgeTime(entry, trash.poolAgeMs),
          usedBytes: image?.allocatedBytes ?? 0n,
        };
      }),
    );
  }

  /** One rename, and it is as if it had never been deleted. */
  async restore(id: VolumeId): Promise<VolumeRecord> {
    const { index, queue, layout, space, trash, unsettled } = this.#parts;
    if (index.get(id) !== undefined) throw new AlreadyExists(`volume ${id} exists: there is nothing to restore.`);
    const entry = trash.entries().find(({ record }) => record.id === id);
    if (entry === undefined) throw new NotFound(`There is no volume ${id} in the trash of pool ${this.#parts.name}.`);
    trash.forget(entry);
    try {
      using _space = await space.holdAgain(entry);
      await step('restore/commit', async () => {
        await queue.run(() => rename(entry.path, layout.volume(id)));
        await syncBoth(this.#parts);
      });
      index.put(entry.record);
    } catch (error) {
      trash.keep(entry);
      await unsettled.recheck([id]);
      throw error;
    }
    return entry.record;
  }

  async purge(id?: VolumeId): Promise<VolumeId[]> {
    const purged = await this.#parts.trash.purgeKept(id);
    await this.#parts.trash.drained();
    return purged;
  }

  /** Written before the rename that deletes: what lies in the trash without this mark is unlinked. */
  async #markDeletion(id: VolumeId, undeleteSeconds: number): Promise<Deletion | undefined> {
    const { reserve, queue, layout, syncs, trash } = this.#parts;
    const deletion = deletedNow(undeleteSeconds, trash.poolAgeMs);
    const volume = layout.volume(id);
    const path = join(volume, deletionFileName);
    const isMarked = await unlessGone(queue, volume, () =>
      step('remove/mark', () =>
        reserve.withReserve(queue, () => replaceFile(queue, syncs, path, JSON.stringify(deletion))),
      ),
    );
    // Removed by hand: nothing is left to be kept.
    return isMarked ? deletion : undefined;
  }

  /** Of an earlier deletion: one that was cut short, or undone. */
  async #removeMark(id: VolumeId): Promise<void> {
    const { queue, layout } = this.#parts;
    await queue.run(() => unlink(join(layout.volume(id), deletionFileName))).catch(ignoreMissing);
  }
}

/** Makes it durable which of the two a volume is in. */
async function syncBoth({ queue, layout, syncs }: ImageParts): Promise<void> {
  await Promise.all([syncs.sync(queue, layout.volumes), syncs.sync(queue, layout.trash)]);
}
