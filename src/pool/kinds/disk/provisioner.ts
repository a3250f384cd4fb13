import type { Descriptor } from '../../../kernel/call/descriptor.ts';
import { DataLoss, FailedPrecondition, InternalError } from '../../../volume/errors.ts';
import { parseVolumeId, type SnapshotId, type VolumeId } from '../../../volume/id.ts';
import type { VolumeRecord } from '../../../volume/record.ts';
import { step } from '../../../volume/step.ts';
import type { Destruction, Provisioner, Recorded, Removed, SizeRange, VolumeDraft } from '../../backend.ts';
import type { Deletion, TrashEntry, TrashRef } from '../../catalog/trash-entry.ts';
import type { Condition } from '../../pool.ts';
import type { DiskParts } from './disk-backend.ts';
import { newRef } from './disks.ts';
import { DiskDraft } from './draft.ts';
import type { Use } from './label.ts';
import type { OwnDisk } from './own-disk.ts';
import { hideData } from './shown.ts';

type Trashed = Extract<Use, { state: 'trash' }>;

/** How volumes come onto disks, and go. */
export class DiskProvisioner implements Provisioner {
  /** A large disk takes a day to wipe. */
  readonly destroysSlowly = true;
  readonly #parts: DiskParts;

  constructor(parts: DiskParts) {
    this.#parts = parts;
  }

  draft(id: VolumeId, { size }: { readonly size: SizeRange }): VolumeDraft {
    return new DiskDraft(this.#parts, id, size);
  }

  async discardDrafts(ids: ReadonlySet<VolumeId | SnapshotId>): Promise<TrashRef[]> {
    return this.#drafts((id) => ids.has(id));
  }

  async leftDrafts(): Promise<TrashRef[]> {
    return this.#drafts(() => true);
  }

  #drafts(isMeant: (id: VolumeId) => boolean): TrashRef[] {
    return this.#parts.disks.own().flatMap(({ use }) => (use.state === 'draft' && isMeant(use.id) ? [use.ref] : []));
  }

  async verify({ kind, record }: Recorded): Promise<void> {
    const { disks } = this.#parts;
    const own = kind === 'volume' ? disks.require(record.id) : undefined;
    if (own !== undefined && own.data.lengthBytes >= record.sizeBytes) return;
    throw new DataLoss(`${kind} ${record.id}: its disk is smaller than the volume.`);
  }

  async conditionOf({ id, sizeBytes }: VolumeRecord): Promise<Condition | undefined> {
    const { disks, notes, queue } = this.#parts;
    // Whoever asks is told what is so now: a disk that went, or came back, may not have been noticed yet.
    if ((await disks.find(id)?.isPresent(queue)) !== true) await disks.scan();
    const own = disks.find(id);
    if (own === undefined) {
      const words = notes.get(id)?.words.slice(0, 60) ?? 'unknown';
      const isCopied = disks.absence(id).includes('same label');
      const what = isCopied ? 'Another disk has the same label as its disk' : 'Its disk is not here or does not answer';
      return { abnormal: true, message: `${what}: ${words}` };
    }
    if (own.data.lengthBytes < sizeBytes) return { abnormal: true, message: 'Its disk is smaller than the volume.' };
    return undefined;
  }

  /** A disk does not grow behind the record. */
  async sizeOf(): Promise<bigint | undefined> {
    return undefined;
  }

  async grow({ id }: VolumeRecord): Promise<void> {
    throw new InternalError(`volume ${id}: disks do not grow.`);
  }

  /** Of a disk that is away it is noted, and done when that comes back. */
  async removeVolume(id: VolumeId, deletion: Deletion | undefined): Promise<Removed> {
    const { disks, notes } = this.#parts;
    const ref = newRef(id);
    const own = disks.find(id);
    if (own === undefined) {
      const note = notes.get(id);
      if (note !== undefined) await step('remove/trash', () => notes.write({ ...note, isDeleted: true }));
      return { ref, isKept: false };
    }
    const { use } = own;
    const record = use.state === 'volume' ? use.record : undefined;
    await step('remove/trash', () => own.write({ state: 'trash', id, ref, record, deletion }));
    await notes.remove(id);
    return { ref, isKept: true };
  }

  async removeSnapshot(id: SnapshotId): Promise<TrashRef> {
    throw new InternalError(`snapshot ${id}: disks have no snapshots.`);
  }

  async restore({ record, ref }: TrashEntry): Promise<void> {
    const own = this.#trashed(ref).own;
    await own.write({ state: 'volume', record });
    const { diskId, words } = own;
    await this.#parts.notes.write({ diskId, words, record, isDeleted: false });
  }

  async mark(ref: TrashRef, deletion: Deletion): Promise<void> {
    const { own, use } = this.#trashed(ref);
    await own.write({ ...use, deletion });
  }

  async unmark(ref: TrashRef): Promise<void> {
    const { own, use } = this.#trashed(ref);
    await own.write({ ...use, deletion: undefined });
  }

  async isMarked(ref: TrashRef): Promise<boolean> {
    const use = await this.#parts.disks.findRef(ref)?.reread();
    return use?.state === 'trash' && use.deletion !== undefined;
  }

  /** The label stays: the disk is the pool's, and free. */
  async destroy(ref: TrashRef, { signal }: Destruction): Promise<void> {
    const own = this.#parts.disks.findRef(ref);
    if (own === undefined) return;
    await this.#hide(own, ref);
    if (own.use.state === 'trash') await this.#wipe(own, ref, signal);
    const { use } = own;
    if (!('ref' in use) || use.ref !== ref) return;
    await step('disk/free', () => own.write({ state: 'free' }));
  }

  /** Somebody who has it open still could read what is the next one's. */
  async #hide(own: OwnDisk, ref: TrashRef): Promise<void> {
    if (await hideData(own)) return;
    const id = parseVolumeId(ref.split('.')[0] ?? '') ?? ref;
    throw new FailedPrecondition(`volume ${id}: a process has ${own.disk.devicePath} open that was deleted: end it.`);
  }

  async #wipe(own: OwnDisk, ref: TrashRef, signal: AbortSignal): Promise<void> {
    const { policy, wiper } = this.#parts;
    const { lengthBytes, startBytes } = own.data;
    await step('disk/wipe', () =>
      wiper.wipe({
        ...{ what: `${ref.split('.')[0]} on ${own.words}`, policy, signal, queue: own.queue },
        range: { offsetBytes: startBytes, lengthBytes },
        open: () => openTrashed(own, ref),
      }),
    );
  }

  #trashed(ref: TrashRef): { readonly own: OwnDisk; readonly use: Trashed } {
    const own = this.#parts.disks.findRef(ref);
    if (own?.use.state === 'trash') return { own, use: own.use };
    throw new FailedPrecondition(`the disk of ${ref.split('.')[0]}, which was deleted, is not here: put it back.`);
  }
}

/** Open, and known by its label of this moment to be what is to be destroyed. */
async function openTrashed(own: OwnDisk, ref: TrashRef): Promise<Descriptor> {
  const device = await own.openToWrite();
  if (own.use.state === 'trash' && own.use.ref === ref && own.use.deletion === undefined) return device;
  await device[Symbol.asyncDispose]();
  throw new FailedPrecondition(`${ref.split('.')[0]} on ${own.disk.devicePath} is not to be wiped any more.`);
}
