import { dirname, join } from 'node:path';
import { readIfThere } from '../../../kernel/file/file.ts';
import { isVolumeId, type SnapshotId, type VolumeId } from '../../../volume/id.ts';
import { parseRecord, type VolumeRecord } from '../../../volume/record.ts';
import { parseSnapshot, type SnapshotRecord } from '../../../volume/snapshot-record.ts';
import type { Provisioner, Removed, SnapshotDraft, VolumeDraft } from '../../backend.ts';
import type { TrashRef } from '../../indexes/trash-entry.ts';
import { over } from '../../layers/over.ts';
import type { Condition } from '../../pool.ts';
import { FileRemoval } from '../../records/file-removal.ts';
import { isThere } from '../../records/gone.ts';
import { removeDirectory } from '../../records/remove-directory.ts';
import type { ExecParts } from './backend.ts';
import { ExecDraft, ExecSnapshotDraft, Tries } from './drafts.ts';

/**
 * Has volumes made and deleted by a program. It knows a volume by its id alone, and a name that is used again has the id that it
 * had: so the rest of one try is deleted only while no other one has the id.
 */
export class ExecProvisioner extends FileRemoval<ExecParts> implements Provisioner {
  readonly #tries = new Tries();

  draft(id: VolumeId): VolumeDraft {
    const draft = new ExecDraft(this.parts, id, this.#tries);
    return over<VolumeDraft>(draft, this.#tries.stepsOf(draft));
  }

  snapshotDraft(id: SnapshotId): SnapshotDraft {
    const draft = new ExecSnapshotDraft(this.parts, id, this.#tries);
    return over<SnapshotDraft>(draft, this.#tries.stepsOf(draft));
  }

  /** Before its record goes: if that fails, it is deleted again. Nothing is kept for a time. */
  override async removeVolume(id: VolumeId): Promise<Removed> {
    await this.#tries.inTurn(id, () => this.parts.storage.delete(id));
    return await super.removeVolume(id, undefined);
  }

  override async removeSnapshot(id: SnapshotId): Promise<TrashRef> {
    await this.#tries.inTurn(id, () => this.parts.storage.deleteSnapshot(id));
    return await super.removeSnapshot(id);
  }

  async verify(): Promise<void> {}

  async conditionOf({ id }: VolumeRecord): Promise<Condition | undefined> {
    return await this.parts.listing.conditionOf(id);
  }

  /** The record has it. */
  async sizeOf(): Promise<bigint | undefined> {
    return undefined;
  }

  async grow(record: VolumeRecord): Promise<void> {
    await this.#tries.inTurn(record.id, () => this.parts.storage.grow(record));
  }

  async destroy(ref: TrashRef): Promise<void> {
    const { layout, queue } = this.parts;
    // Elsewhere lie volumes that were deleted before.
    const record = dirname(ref) === layout.drafts ? await this.#recordIn(ref) : undefined;
    if (record !== undefined) {
      const mayDelete = this.#tries.has(ref) || isRecent(record);
      // A later try that fails before its intent is noted would leave no note of it.
      if (mayDelete && !(await this.#deleteUnlessNew(record.id))) return;
      if (!mayDelete) this.#leave(record);
    }
    this.#tries.forget(ref);
    await removeDirectory(queue, ref);
  }

  #leave({ createdAt, id, name }: VolumeRecord | SnapshotRecord): void {
    this.parts.log.warn(
      { pool: this.parts.name, [isVolumeId(id) ? 'volume_id' : 'snapshot_id']: id, name, created_at: createdAt },
      'a volume or snapshot was being made when its home ended, too long ago to be deleted now: it may be in use, if the records were restored. If no PersistentVolume or VolumeSnapshotContent names it, delete it by hand',
    );
  }

  /** @returns false: another try is on its way, and what becomes of it is not known yet */
  async #deleteUnlessNew(id: VolumeId | SnapshotId): Promise<boolean> {
    const { layout, queue, storage } = this.parts;
    const place = isVolumeId(id) ? layout.volume(id) : layout.snapshot(id);
    return await this.#tries.inTurn(id, async () => {
      if (this.#tries.isOnItsWay(id)) return false;
      if (await isThere(queue, place)) return true;
      if (isVolumeId(id)) await storage.delete(id);
      else await storage.deleteSnapshot(id);
      return true;
    });
  }

  async #recordIn(ref: TrashRef): Promise<VolumeRecord | SnapshotRecord | undefined> {
    for (const [name, parse] of [
      ['volume.json', parseRecord],
      ['snapshot.json', parseSnapshot],
    ] as const) {
      const path = join(ref, name);
      const text = await readIfThere(this.parts.queue, path);
      try {
        if (text !== undefined) return parse(text, path);
      } catch {
        // Its write was cut short, so the program was not called yet.
        return undefined;
      }
    }
    return undefined;
  }
}

/** A home ends, and the next one takes over, in less. */
const recentMs = 30 * 60_000;

/**
 * Answers if what an ended try has left may be deleted. The directory of records may be restored from a backup, or rolled back:
 * then a volume that was just being made has been in use since, and no record says so.
 */
function isRecent({ createdAt }: Pick<VolumeRecord, 'createdAt'>): boolean {
  const ageMs = Date.now() - Date.parse(createdAt);
  // A clock that is behind tells nothing.
  return ageMs >= 0 && ageMs < recentMs;
}
