import { constants } from 'node:fs';
import { deallocate, zeroOut } from '../../../kernel/block/zeroing.ts';
import type { Descriptor } from '../../../kernel/call/descriptor.ts';
import { syncFile } from '../../../kernel/file/file.ts';
import type { ByteRange } from '../../../kernel/file/sparse.ts';
import { DataLoss, FailedPrecondition, InternalError, ResourceExhausted, Unavailable } from '../../../volume/errors.ts';
import { isVolumeId, type SnapshotId, type VolumeId } from '../../../volume/id.ts';
import type { VolumeRecord } from '../../../volume/record.ts';
import type { IncomingBytesDraft, IncomingRoom, Recorded, Transfer } from '../../backend.ts';
import type { TrashRef } from '../../indexes/trash-entry.ts';
import { isUnable } from '../../wipe/wipe.ts';
import type { DiskParts } from './disk-backend.ts';
import { idOf, type StoredObject, storedRecord } from './label/payload.ts';
import { newObjectName } from './names.ts';
import { changeObject, isIncoming, objectNamed, volumeOf } from './objects.ts';
import { whyTaken } from './space.ts';

/** The volume of a disk that moves into another pool, or comes from there. Marks and notes lie in the label: each is one write of it. */
export class DiskTransfer implements Transfer {
  readonly #parts: DiskParts;

  constructor(parts: DiskParts) {
    this.#parts = parts;
  }

  get sectorBytes(): number {
    return this.#parts.blockSizeBytes;
  }

  async readMark(id: SnapshotId | VolumeId): Promise<string | undefined> {
    if (!isVolumeId(id)) return undefined;
    // A mark whose write has failed counts if it is on the disk.
    return volumeOf(await this.#parts.label.settled(), id)?.mark;
  }

  async writeMark(id: SnapshotId | VolumeId, text: string): Promise<void> {
    await changeObject(this.#parts.label, id, 'volume', (object) => ({ ...object, mark: text }));
  }

  async markInTrash(ref: TrashRef): Promise<string | undefined> {
    return objectNamed(this.#parts.label.payload, ref)?.mark;
  }

  /** Its device goes when it is closed: one that stays says that the volume is in use. */
  async read({ record }: Recorded): Promise<Descriptor> {
    const { calls, label, mapped, openData } = this.#parts;
    const object = isVolumeId(record.id) ? volumeOf(label.payload, record.id) : undefined;
    if (object === undefined) throw this.#parts.missing(record.id);
    await label.refresh();
    const wanted = mapped.data(object.name);
    // A reader that is cut off may have it open still.
    const shared = await mapped.openGoing(calls, wanted);
    if (shared !== undefined) return shared;
    const { descriptor } = await openData(calls, object.name);
    try {
      await mapped.letGo(calls, wanted);
      return descriptor;
    } catch (error) {
      await descriptor[Symbol.asyncDispose]();
      throw error;
    }
  }

  incoming(id: VolumeId): IncomingBytesDraft {
    return new IncomingDisk(this.#parts, id);
  }

  async incomingVolumes(): Promise<readonly VolumeId[]> {
    const { object } = this.#parts.label.payload;
    const id = object !== undefined && isIncoming(object) ? idOf(object) : undefined;
    return id === undefined ? [] : [id];
  }

  whyNoRoom(id: VolumeId): FailedPrecondition | Unavailable | undefined {
    const { label, poolName } = this.#parts;
    const { object } = label.payload;
    return object === undefined || isComing(object, id) ? undefined : taken(poolName, object);
  }
}

/** True of the draft of this very volume. */
function isComing(object: StoredObject, id: VolumeId): boolean {
  return isIncoming(object) && idOf(object) === id;
}

/** A move that begins again waits for the end of a wipe. */
function taken(poolName: string, object: StoredObject): FailedPrecondition | Unavailable {
  const why = `pool ${poolName} ${whyTaken(object)}`;
  return object.state === 'removed' ? new Unavailable(why) : new FailedPrecondition(why);
}

/** The disk while a volume comes to it: a draft with a note in its label. */
class IncomingDisk implements IncomingBytesDraft {
  readonly kind = 'bytes';
  readonly isBlank = false;
  readonly isRestAny = true;
  readonly #parts: DiskParts;
  readonly #id: VolumeId;
  #whole: StoredObject | undefined;

  constructor(parts: DiskParts, id: VolumeId) {
    this.#parts = parts;
    this.#id = id;
  }

  async begin({ sizeBytes }: IncomingRoom): Promise<void> {
    const { label, poolName } = this.#parts;
    this.#requireSize(sizeBytes);
    if (this.#find() !== undefined) return;
    await label.change((payload) => {
      const { object } = payload;
      // A write that failed may have reached the disk.
      if (object !== undefined && isComing(object, this.#id)) return payload;
      if (object !== undefined) throw taken(poolName, object);
      return { ...payload, object: { name: newObjectName(this.#id), state: 'draft', incoming: '' } };
    });
  }

  async resize(sizeBytes: bigint): Promise<void> {
    this.#requireSize(sizeBytes);
  }

  async open(): Promise<Descriptor> {
    const { calls, openData } = this.#parts;
    return (await openData(calls, this.#require().name, constants.O_RDWR)).descriptor;
  }

  async zero(data: Descriptor, range: ByteRange): Promise<void> {
    const { calls, wipePolicy } = this.#parts;
    if (wipePolicy !== 'discard') return zeroOut(calls, data, range);
    try {
      await deallocate(calls, data, range);
    } catch (error) {
      if (!isUnable(error)) throw error;
      await zeroOut(calls, data, range);
    }
  }

  async readNote(): Promise<string | undefined> {
    await this.#parts.label.refresh();
    return this.#find()?.incoming;
  }

  async writeNote(text: string): Promise<void> {
    const { name } = this.#require();
    await changeObject(this.#parts.label, name, 'draft', (object) => ({ ...object, incoming: text }));
  }

  async takenBytes(): Promise<bigint> {
    return this.#find() === undefined ? 0n : this.#parts.label.payload.data.lengthBytes;
  }

  async complete(record: VolumeRecord, mark: string): Promise<void> {
    await using data = await this.open();
    await syncFile(this.#parts.calls, data);
    this.#whole = { name: this.#require().name, state: 'volume', record: storedRecord(record), mark };
  }

  async commit(): Promise<void> {
    const { calls, label, mapped } = this.#parts;
    const whole = this.#whole;
    if (whole === undefined) throw new InternalError(`${this.#id} is committed before it is whole.`);
    // From then on a device says that the volume is in use: that of the copy goes with its last user.
    await mapped.letGo(calls, mapped.data(whole.name));
    await changeObject(label, whole.name, 'draft', () => whole);
  }

  /** The note has gone with the commit. */
  async forgetNote(): Promise<void> {}

  /** It is wiped like a deleted volume, unless nothing was written to it: the mover notes its beginning first. */
  async discard(): Promise<readonly TrashRef[]> {
    const { calls, label, mapped } = this.#parts;
    // A write that failed may have reached the disk.
    await label.settled();
    const object = this.#find();
    if (object === undefined) return this.#given();
    const { incoming, name } = object;
    const isUntouched = incoming === '' && (await mapped.remove(calls, mapped.data(name)));
    await changeObject(label, name, 'draft', () => (isUntouched ? undefined : { name, state: 'removed' }));
    return isUntouched ? [] : [name];
  }

  /** One whose discard has failed is wiped like one that was discarded. */
  #given(): readonly TrashRef[] {
    const { object } = this.#parts.label.payload;
    return object?.state === 'removed' && idOf(object) === this.#id ? [object.name] : [];
  }

  #find(): StoredObject | undefined {
    const { object } = this.#parts.label.payload;
    return object !== undefined && isComing(object, this.#id) ? object : undefined;
  }

  #require(): StoredObject {
    const object = this.#find();
    if (object !== undefined) return object;
    throw new DataLoss(`The disk that ${this.#id} moves to has no copy of it: its label says otherwise.`);
  }

  /** @throws ResourceExhausted */
  #requireSize(sizeBytes: bigint): void {
    const { label, poolName } = this.#parts;
    const { lengthBytes } = label.payload.data;
    if (sizeBytes <= lengthBytes) return;
    throw new ResourceExhausted(
      `pool ${poolName} has ${lengthBytes} bytes for its volume, and the one that moves there needs ${sizeBytes}.`,
    );
  }
}
