import { constants } from 'node:fs';
import { zeroOut } from '../../../kernel/block/zeroing.ts';
import type { Descriptor } from '../../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { isErrno } from '../../../kernel/call/errno.ts';
import { syncFile } from '../../../kernel/file/file.ts';
import { DataLoss, FailedPrecondition, InternalError, OutOfRange } from '../../../volume/errors.ts';
import type { VolumeId } from '../../../volume/id.ts';
import type { VolumeRecord } from '../../../volume/record.ts';
import { smaller } from '../../../volume/size.ts';
import { step } from '../../../volume/step.ts';
import type { Destruction, Provisioner, Recorded, Removed, VolumeDraft } from '../../backend.ts';
import { abnormal } from '../../condition.ts';
import type { Deletion, TrashEntry, TrashRef } from '../../indexes/trash-entry.ts';
import { isOpenElsewhere } from '../../mapped-device.ts';
import type { Condition } from '../../pool.ts';
import type { DiskParts } from './disk-backend.ts';
import { DiskVolumeDraft } from './drafts.ts';
import { type StoredObject, storedRecord } from './label/payload.ts';
import { changeObject, isIncoming, objectNamed, volumeOf } from './objects.ts';

/** At either end of a draft, where filesystems have what they are known by. */
const endBytes = 4n << 20n;

/** Makes, removes and restores the one volume of a disk: one write of its label each. */
export class DiskProvisioner implements Provisioner {
  readonly destroysSlowly = true;
  readonly #parts: DiskParts;
  /** Volumes that are wiped, but could not be removed yet: a retry does not wipe them again. */
  readonly #wiped = new Set<TrashRef>();

  constructor(parts: DiskParts) {
    this.#parts = parts;
  }

  draft(id: VolumeId): VolumeDraft {
    return new DiskVolumeDraft(this.#parts, id);
  }

  async discardDrafts(): Promise<TrashRef[]> {
    return [];
  }

  async leftDrafts(): Promise<TrashRef[]> {
    const { object } = this.#parts.label.payload;
    return object?.state === 'draft' && !isIncoming(object) ? [object.name] : [];
  }

  async verify({ record }: Recorded): Promise<void> {
    const sizeBytes = await this.#sizeOf(record.id as VolumeId);
    if (sizeBytes === undefined) throw this.#parts.missing(record.id);
    if (sizeBytes >= record.sizeBytes) return;
    throw new DataLoss(`volume ${record.id}: its disk has only ${sizeBytes} of ${record.sizeBytes} bytes for it.`);
  }

  async conditionOf({ id }: VolumeRecord): Promise<Condition | undefined> {
    const { label, mapped } = this.#parts;
    if (label.lost.aborted) {
      const message = 'Another node has written to its disk. Let one node have it, then restart the driver.';
      return abnormal(message);
    }
    const object = volumeOf(label.payload, id);
    if (object === undefined) return abnormal('It is not on its disk any more.');
    const device = mapped.find(mapped.data(object.name));
    if (device === undefined || mapped.isOverDisk(device)) return undefined;
    return abnormal('Its disk was pulled while it was in use. Stop its pod: then it is attached again.');
  }

  sizeOf(id: VolumeId): Promise<bigint | undefined> {
    return this.#sizeOf(id);
  }

  async grow({ id, sizeBytes }: VolumeRecord): Promise<void> {
    const dataBytes = await this.#sizeOf(id);
    if (dataBytes !== undefined && sizeBytes <= dataBytes) return;
    throw new OutOfRange(`volume ${id} has all of its disk already: it cannot have ${sizeBytes} bytes.`);
  }

  async removeVolume(id: VolumeId, deletion: Deletion | undefined): Promise<Removed> {
    const { label } = this.#parts;
    const object = volumeOf(label.payload, id);
    // It remains to forget it (DV05).
    if (object === undefined) return { ref: id, isKept: false };
    await step('remove/trash', () => changeObject(label, object.name, 'volume', whenDeleted(deletion)));
    return { ref: object.name, isKept: deletion !== undefined };
  }

  async removeSnapshot(id: TrashRef): Promise<TrashRef> {
    return id;
  }

  async restore({ record, ref }: TrashEntry): Promise<void> {
    await changeObject(this.#parts.label, ref, 'trash', ({ mark, name }) => ({
      name,
      state: 'volume',
      record: storedRecord(record),
      mark,
    }));
  }

  async mark(ref: TrashRef, deletion: Deletion | undefined): Promise<void> {
    if (objectNamed(this.#parts.label.payload, ref)?.state === 'trash')
      await changeObject(this.#parts.label, ref, 'trash', whenDeleted(deletion));
  }

  /** The disk is free only when nothing can be read on it any more; starts again from the beginning after a crash. */
  async destroy(ref: TrashRef, how: Destruction): Promise<void> {
    const { calls, label, mapped } = this.#parts;
    const object = this.#ofNobody(ref);
    if (object === undefined) return;
    if (!this.#wiped.has(ref)) {
      // Only mkfs has written to a draft.
      if (object.state === 'draft') await this.#clearEnds(ref);
      else await this.#wipe(ref, how);
      this.#wiped.add(ref);
    }
    // Through an open device a program would read, and write, the data of the next volume.
    if (!(await mapped.remove(calls, mapped.data(ref)))) {
      this.#wiped.delete(ref);
      throw inUseStill(ref);
    }
    await changeObject(label, ref, object.state, () => undefined);
    this.#wiped.delete(ref);
  }

  /** Also while another program has it open, which must read nothing any more. */
  async openInTrash(ref: TrashRef): Promise<Descriptor | undefined> {
    const { calls, openData } = this.#parts;
    if (this.#ofNobody(ref) === undefined) return undefined;
    return (await openData(calls, ref, constants.O_RDWR)).descriptor;
  }

  /** The object to be wiped. Its name is the same in any state. @throws InternalError if it is kept */
  #ofNobody(ref: TrashRef): StoredObject | undefined {
    const object = objectNamed(this.#parts.label.payload, ref);
    if (object === undefined || object.state === 'removed') return object;
    if (object.state === 'draft' && !isIncoming(object)) return object;
    throw new InternalError(`${ref} is a ${object.state}: it is not destroyed.`);
  }

  async #wipe(ref: TrashRef, { signal }: Destruction): Promise<void> {
    const { label, poolName, wipePolicy, wiper } = this.#parts;
    const { lengthBytes } = label.payload.data;
    await wiper.wipe({
      what: `${poolName}/${ref}`,
      range: { offsetBytes: 0n, lengthBytes },
      policy: wipePolicy,
      // It takes hours: also in the middle, what another node has made of the disk is not wiped.
      signal: AbortSignal.any([signal, label.lost]),
      open: (queue) => this.#openAlone(queue, ref),
    });
  }

  async #clearEnds(ref: TrashRef): Promise<void> {
    const { calls, label } = this.#parts;
    const { lengthBytes: dataBytes } = label.payload.data;
    await using device = await this.#openAlone(calls, ref);
    if (device === undefined) return;
    const lengthBytes = smaller(endBytes, dataBytes);
    for (const offsetBytes of [0n, dataBytes - lengthBytes]) {
      await zeroOut(calls, device, { offsetBytes, lengthBytes });
    }
    await syncFile(calls, device);
  }

  /** Exclusively: whatever another program wrote after the wipe, the next volume would read. */
  async #openAlone(queue: DiskQueue, ref: TrashRef): Promise<Descriptor | undefined> {
    const { mapped, openData } = this.#parts;
    if (this.#ofNobody(ref) === undefined) return undefined;
    let descriptor: Descriptor;
    try {
      ({ descriptor } = await openData(queue, ref, constants.O_RDWR | constants.O_EXCL));
    } catch (error) {
      throw isErrno(error, 'EBUSY') ? inUseStill(ref) : error;
    }
    if (!(await isOpenElsewhere(() => mapped.find(mapped.data(ref))))) return descriptor;
    await descriptor[Symbol.asyncDispose]();
    throw inUseStill(ref);
  }

  async #sizeOf(id: VolumeId): Promise<bigint | undefined> {
    const { payload } = this.#parts.label;
    return volumeOf(payload, id) === undefined ? undefined : payload.data.lengthBytes;
  }
}

function inUseStill(ref: TrashRef): FailedPrecondition {
  return new FailedPrecondition(
    `${ref} was deleted and is still open (see lsblk): its disk is free once it is closed.`,
  );
}

/** In the trash it is whole; on its way out it has nothing but its name. */
function whenDeleted(deletion: Deletion | undefined): (before: StoredObject) => StoredObject {
  if (deletion === undefined) return ({ name }) => ({ name, state: 'removed' });
  return (before) => ({ ...before, state: 'trash', deletion });
}
