import { constants } from 'node:fs';
import type { Descriptor } from '../../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { isErrno } from '../../../kernel/call/errno.ts';
import { DataLoss, FailedPrecondition, InternalError } from '../../../volume/errors.ts';
import type { SnapshotId, VolumeId } from '../../../volume/id.ts';
import type { VolumeRecord } from '../../../volume/record.ts';
import { step } from '../../../volume/step.ts';
import type { Destruction, DraftOptions, Provisioner, Recorded, Removed, VolumeDraft } from '../../backend.ts';
import { abnormal } from '../../condition.ts';
import type { Deletion, TrashEntry, TrashRef } from '../../indexes/trash-entry.ts';
import { isOpenElsewhere } from '../../mapped-device.ts';
import type { Condition } from '../../pool.ts';
import { failureOf } from './commands/failure.ts';
import { isLvmError } from './commands/lvm.ts';
import { LvVolumeDraft } from './drafts.ts';
import type { OwnLv } from './group/group-state.ts';
import { healthOf, legTroubleOf, syncOf } from './group/health.ts';
import { wholeBytes } from './layout.ts';
import { openLv } from './lv-device.ts';
import type { LvmParts } from './lvm-backend.ts';
import { recordedBytes, tagsWhenDeleted, volumeTags } from './record-store.ts';
import { wipeOf } from './tags.ts';
import { thinTrouble } from './thin/space.ts';
import { isIncoming } from './transfer.ts';

/** The age of a report of LVM that still tells a volume's health: a list of thousands asks LVM once. */
const recentMs = 10_000;

/** Makes, changes, removes and restores logical volumes: one commit of the volume group each. */
export class LvmProvisioner implements Provisioner {
  /** They are wiped; but thin ones read as zeros wherever they were not written. */
  readonly destroysSlowly: boolean;
  readonly #parts: LvmParts;
  /** Volumes that are wiped, but could not be removed yet: a retry does not wipe them again. */
  readonly #wiped = new Set<TrashRef>();

  constructor(parts: LvmParts) {
    this.#parts = parts;
    this.destroysSlowly = parts.thin === undefined;
  }

  draft(id: VolumeId, options: DraftOptions): VolumeDraft {
    return new LvVolumeDraft(this.#parts, id, options);
  }

  /** No draft can be resumed: a copy that was cut short starts again. */
  async discardDrafts(): Promise<TrashRef[]> {
    return [];
  }

  async leftDrafts(): Promise<TrashRef[]> {
    return this.#parts.group
      .inState('draft')
      .filter((lv) => !isIncoming(lv))
      .map(({ name }) => name);
  }

  async verify(object: Recorded): Promise<void> {
    const { kind, record } = object;
    const lv = this.#parts.group.find(record.id);
    if (lv === undefined) throw this.#parts.missing(object);
    if (lv.sizeBytes >= record.sizeBytes) return;
    throw new DataLoss(
      `${kind} ${record.id}: its logical volume ${lv.name} has only ${lv.sizeBytes} of ${record.sizeBytes} bytes.`,
    );
  }

  async conditionOf({ id, sizeBytes }: VolumeRecord): Promise<Condition | undefined> {
    const { group } = this.#parts;
    try {
      await group.refresh(recentMs);
    } catch (error) {
      if (isLvmError(error)) return abnormal('LVM cannot read its volume group: see vgs on the node.');
      // For example, the group is gone with its disks.
      if (error instanceof FailedPrecondition) return abnormal('Its volume group is not there: see vgs on the node.');
      throw error;
    }
    const lv = group.find(id);
    if (lv === undefined) return abnormal('The logical volume is missing.');
    if (lv.sizeBytes < sizeBytes) return abnormal('The logical volume is smaller than the volume: data is missing.');
    const { thin } = this.#parts;
    const trouble = healthOf(lv) ?? (thin && (await thinTrouble(thin)));
    if (trouble !== undefined) return abnormal(trouble);
    const progress = syncOf(lv);
    return progress === undefined ? undefined : { abnormal: false, message: progress };
  }

  async sizeOf(id: VolumeId): Promise<bigint | undefined> {
    const { group } = this.#parts;
    const lv = group.find(id);
    if (lv === undefined) return undefined;
    const recorded = recordedBytes(lv) ?? 0n;
    // Stripes are all of one length: the rest beyond the volume's size is not used.
    return wholeBytes(recorded, lv, group.state.extentBytes) === lv.sizeBytes ? recorded : lv.sizeBytes;
  }

  async grow({ id, sizeBytes }: VolumeRecord): Promise<void> {
    await this.#parts.group.extend(this.#require(id).name, sizeBytes);
  }

  async removeVolume(id: VolumeId, deletion: Deletion | undefined): Promise<Removed> {
    const lv = this.#parts.group.find(id);
    if (lv === undefined) {
      // Removed by hand: it remains to forget it (DV05). But only if this is the pool's group, and all of it.
      await this.#parts.group.requireWhole();
      return { ref: id, isKept: false };
    }
    await step('remove/trash', () => this.#parts.group.retag(lv.name, tagsWhenDeleted(lv, deletion)));
    return { ref: lv.name, isKept: deletion !== undefined };
  }

  async removeSnapshot(id: SnapshotId): Promise<TrashRef> {
    const lv = this.#parts.group.find(id);
    if (lv === undefined) {
      await this.#parts.group.requireWhole();
      return id;
    }
    await this.#parts.group.retag(lv.name, tagsWhenDeleted(lv, undefined));
    return lv.name;
  }

  async restore({ record, ref }: TrashEntry): Promise<void> {
    const wipe = wipeOf(this.#parts.group.get(ref)?.tags ?? []);
    await this.#parts.group.retag(ref, volumeTags(record, wipe));
  }

  async mark(ref: TrashRef, deletion: Deletion | undefined): Promise<void> {
    const lv = this.#parts.group.get(ref);
    if (lv !== undefined) await this.#parts.group.retag(ref, tagsWhenDeleted(lv, deletion));
  }

  /** Its extents are free only when nothing can be read in them any more; starts again from the beginning after a crash. */
  async destroy(ref: TrashRef, { signal }: Destruction): Promise<void> {
    const { group, idle, queue, thin } = this.#parts;
    // A new volume of a thin pool reads nothing of a deleted one, in whatever state that is.
    let lv = await this.#ofNobodyNow(ref, thin === undefined ? 0 : recentMs);
    if (lv?.state === 'draft' && group.isHalfMade(ref)) {
      // There is no data in it, and it cannot be activated.
      await group.removeParts(queue, ref);
    } else if (lv !== undefined && thin === undefined && !this.#wiped.has(ref)) {
      await this.#requireBothLegs(lv);
      await this.#wipe(lv, signal);
      // The wipe may have taken hours. And a disk of a mirror that went away meanwhile would come back with its old data.
      lv = await this.#ofNobodyNow(ref, lv.layout === 'raid1' ? 0 : recentMs);
      if (lv !== undefined) await this.#requireBothLegs(lv);
      this.#wiped.add(ref);
    }
    try {
      if (lv !== undefined) await group.remove(ref);
    } catch (error) {
      // The program that has it open may have written to it since.
      if (isLvmError(error) && failureOf(error) === 'in-use') this.#wiped.delete(ref);
      throw error;
    }
    this.#wiped.delete(ref);
    idle.delete(ref);
  }

  async #wipe({ name, sizeBytes, tags }: OwnLv, signal: AbortSignal | undefined): Promise<void> {
    const { group, wipePolicy, wiper } = this.#parts;
    await wiper.wipe({
      what: `${group.name}/${name}`,
      range: { offsetBytes: 0n, lengthBytes: sizeBytes },
      policy: wipeOf(tags) ?? wipePolicy,
      signal,
      open: (queue) => this.#openAlone(queue, name),
    });
  }

  /** LVM removes a mirror also while a disk is missing, and that one would still have all of it. @throws FailedPrecondition */
  async #requireBothLegs(lv: OwnLv): Promise<void> {
    const { group } = this.#parts;
    const trouble = legTroubleOf(lv);
    if (trouble === undefined) return;
    // At the next activation its legs are brought in step.
    if (trouble === 'out of step') await group.deactivate([lv.name]);
    throw new FailedPrecondition(
      `logical volume ${group.name}/${lv.name} was deleted while a disk of its mirror was away: it is wiped and goes once both are there.`,
    );
  }

  /** Also while another program has it open, which must read nothing any more. */
  async openInTrash(ref: TrashRef): Promise<Descriptor | undefined> {
    const { calls, group, idle } = this.#parts;
    if (this.#ofNobody(ref) === undefined) return undefined;
    if (group.deviceOf(ref) === undefined) idle.add(ref);
    return (await openLv(calls, group, ref, constants.O_RDWR)).descriptor;
  }

  /** The volume to be wiped. Its name is the same in any state. @throws InternalError if it is kept */
  #ofNobody(ref: TrashRef): OwnLv | undefined {
    const { group } = this.#parts;
    const lv = group.get(ref);
    if (lv === undefined || lv.state === 'draft' || lv.state === 'removed') return lv;
    throw new InternalError(`logical volume ${group.name}/${ref} is a ${lv.state}: it is not destroyed.`);
  }

  /**
   * LVM's current view: an operator may have made it larger, have kept it by its tags, or removed it.
   * @param maximumAgeMs the age of a report of LVM that will do
   * @throws FailedPrecondition if a foreign snapshot would be removed with it
   */
  async #ofNobodyNow(ref: TrashRef, maximumAgeMs: number): Promise<OwnLv | undefined> {
    const { group } = this.#parts;
    if (this.#ofNobody(ref) === undefined) return undefined;
    await group.refresh(maximumAgeMs);
    const lv = this.#ofNobody(ref);
    // lv_attr of lvs(8): an origin.
    if (lv === undefined || !/^o/i.test(lv.attributes)) return lv;
    throw new FailedPrecondition(
      `logical volume ${group.name}/${ref} was deleted, but a snapshot of it made by hand would be removed with it (see lvs): it is removed once that snapshot is gone.`,
    );
  }

  /** Exclusively: whatever another program wrote after the wipe, the next volume would read. */
  async #openAlone(queue: DiskQueue, lvName: string): Promise<Descriptor | undefined> {
    const { group } = this.#parts;
    if (group.get(lvName) === undefined) return undefined;
    const inUse = new FailedPrecondition(
      `logical volume ${group.name}/${lvName} was deleted and is still open (see lsblk): it is removed once it is closed.`,
    );
    let descriptor: Descriptor;
    try {
      ({ descriptor } = await openLv(queue, group, lvName, constants.O_RDWR | constants.O_EXCL));
    } catch (error) {
      throw isErrno(error, 'EBUSY') ? inUse : error;
    }
    if (!(await isOpenElsewhere(() => group.deviceOf(lvName)))) return descriptor;
    await descriptor[Symbol.asyncDispose]();
    throw inUse;
  }

  #require(id: VolumeId): OwnLv {
    const lv = this.#parts.group.find(id);
    if (lv === undefined) throw new DataLoss(`volume ${id}: its logical volume is missing.`);
    return lv;
  }
}
