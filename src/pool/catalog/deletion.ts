import { type Mount, readMountTable } from '../../kernel/mount/mount-table.ts';
import { AlreadyExists, NotFound } from '../../volume/errors.ts';
import type { VolumeId } from '../../volume/id.ts';
import type { VolumeRecord } from '../../volume/record.ts';
import { step } from '../../volume/step.ts';
import { mountsOf } from '../attached-mounts.ts';
import { deletedNow, purgeTime, type TrashEntry } from '../indexes/trash-entry.ts';
import type { TrashedVolume } from '../pool.ts';
import { refuseInUse } from './in-use.ts';
import { parseMark } from './move-mark.ts';
import type { CatalogParts } from './parts.ts';
import { destroyUnreadable, isForWantOfRoom } from './unreadable.ts';

/** Removes volumes, and restores them. */
export class Deletion {
  readonly #parts: CatalogParts;

  constructor(parts: CatalogParts) {
    this.#parts = parts;
  }

  async remove(id: VolumeId): Promise<void> {
    const { backend, generations, index, trash, unsettled } = this.#parts;
    const record = index.get(id);
    if (record === undefined) {
      // A copy that was on its way is not wanted any more.
      if (backend.traits.snapshots === 'copy') await this.#discardDraft(id);
      await this.#shredLeft(id);
      await backend.provisioner.removeUnknown?.(id);
      return;
    }
    await refuseInUse(this.#parts, record);
    const { undeleteSeconds = this.#parts.undeleteSeconds } = record;
    const deletion = undeleteSeconds === 0 ? undefined : deletedNow(undeleteSeconds, trash.poolAgeMs);
    const mayBeMarked = !this.#parts.untouched.delete(record);
    const { isKept, ref } = await unsettled.change([id], () =>
      backend.provisioner.removeVolume(id, deletion, mayBeMarked),
    );
    index.delete(id);
    backend.attacher.forget?.(id);
    if (deletion !== undefined && isKept) trash.keep({ ...deletion, ref, record });
    else await destroyUnreadable(this.#parts, ref, record);
    await generations.forget(id);
  }

  /**
   * Removes ephemeral volumes that nothing on this node uses: their mounts went with a crash or a reboot, and a pod that
   * still wants one gets a new one.
   */
  async removeUnusedEphemeral(): Promise<VolumeId[]> {
    const { backend, index, log, name } = this.#parts;
    const table = await readMountTable(backend.queue);
    const removed = Array.from(index.all(), async ({ ephemeral, id }) => {
      if (ephemeral === undefined || (await this.#isMounted(id, table))) return [];
      try {
        await this.remove(id);
        return [id];
      } catch (error) {
        // For example, in use in another mount namespace: its unpublish is still to come, or the next start.
        log.warn({ pool: name, volume_id: id, err: error }, 'cannot remove an ephemeral volume');
        return [];
      }
    });
    return (await Promise.all(removed)).flat();
  }

  async #isMounted(id: VolumeId, table: readonly Mount[]): Promise<boolean> {
    const attached = await this.#parts.backend.attacher.attached(id);
    if (attached.some(({ kind }) => kind !== 'device')) return true;
    return table.some(await mountsOf(this.#parts.backend.queue, attached, table));
  }

  async list(): Promise<TrashedVolume[]> {
    const { backend, trash } = this.#parts;
    return Promise.all(
      trash.entries().map(async (entry) => {
        const { deletedAt, record, ref } = entry;
        const usedBytes = await backend.space.allocatedBytes(ref).catch(() => 0n);
        const isLeft = await trash.hasLeft(entry);
        return { record, deletedAt, purgeAt: purgeTime(entry, trash.poolAgeMs), usedBytes, isLeft };
      }),
    );
  }

  /** One commit, and it is as if it had never been deleted. */
  async restore(id: VolumeId): Promise<VolumeRecord> {
    const { backend, index, space, trash, unsettled } = this.#parts;
    const entry = this.#restorable(id);
    trash.forget(entry);
    try {
      using _space = await space.holdAgain(entry);
      await this.#noteGeneration(entry);
      await step('restore/commit', () => backend.provisioner.restore(entry));
      index.put(entry.record);
    } catch (error) {
      trash.keep(entry);
      await unsettled.recheck([id]);
      throw error;
    }
    return entry.record;
  }

  /** Before a volume is restored: there is room for it, or would be. Nothing is changed. */
  async requireRestorable(id: VolumeId): Promise<void> {
    await this.#parts.space.requireRoomAgain(this.#restorable(id));
  }

  #restorable(id: VolumeId): TrashEntry {
    const { index, name, trash } = this.#parts;
    if (index.get(id) !== undefined) throw new AlreadyExists(`volume ${id} exists: there is nothing to restore.`);
    const entry = trash.entries().find(({ record }) => record.id === id);
    if (entry === undefined) throw new NotFound(`There is no volume ${id} in the trash of pool ${name}.`);
    return entry;
  }

  /** The copies that it has left behind in other pools are old ones again. */
  async #noteGeneration({ record, ref }: TrashEntry): Promise<void> {
    const { backend, generations } = this.#parts;
    const text = await backend.extras.transfer?.markInTrash(ref);
    const generation = text === undefined ? 0 : parseMark(text, `of the move of volume ${record.id}`).generation;
    if (generation > 0 && !(await generations.isNoted(record.id, generation)))
      await generations.write(record.id, generation);
  }

  async purge(id?: VolumeId): Promise<VolumeId[]> {
    const { trash } = this.#parts;
    const purged = await trash.purgeKept(id);
    await trash.drained();
    return purged;
  }

  /**
   * A call that was cut short may have given no answer, with its keys still there: a volume is gone only when it is
   * unreadable.
   */
  async #shredLeft(id: VolumeId): Promise<void> {
    const { provisioner, records } = this.#parts.backend;
    if (provisioner.shred === undefined) return;
    const { unkept } = await records.readTrash(id);
    for (const ref of unkept) {
      await provisioner.shred(ref).catch((error) => {
        if (!isForWantOfRoom(error)) throw error;
      });
    }
  }

  async #discardDraft(id: VolumeId): Promise<void> {
    const { backend, trash } = this.#parts;
    for (const ref of await backend.provisioner.discardDrafts(new Set([id]))) trash.destroy(ref);
  }
}
