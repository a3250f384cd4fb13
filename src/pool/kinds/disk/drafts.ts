import { type FormatTarget, formatVolume } from '../../../filesystems/format-volume.ts';
import { syncFile } from '../../../kernel/file/file.ts';
import { FailedPrecondition, InternalError, ResourceExhausted } from '../../../volume/errors.ts';
import type { VolumeId } from '../../../volume/id.ts';
import type { VolumeRecord } from '../../../volume/record.ts';
import { formatBytes } from '../../../volume/size.ts';
import { step } from '../../../volume/step.ts';
import type { Clone, NewData, VolumeDraft } from '../../backend.ts';
import type { TrashRef } from '../../indexes/trash-entry.ts';
import type { DiskParts } from './disk-backend.ts';
import { storedRecord } from './label/payload.ts';
import { newObjectName } from './names.ts';
import { changeObject, objectNamed } from './objects.ts';

/** A volume being made: the label says that the disk has a draft. One change of the label turns it into a volume. */
export class DiskVolumeDraft implements VolumeDraft {
  readonly #parts: DiskParts;
  readonly #name: string;
  /** undefined: it is not whole yet. */
  #record: string | undefined;
  #isCommitting = false;

  constructor(parts: DiskParts, id: VolumeId) {
    this.#parts = parts;
    this.#name = newObjectName(id);
  }

  /** Takes the disk. @throws ResourceExhausted if it has something already, whatever that is */
  async begin(): Promise<void> {
    const { label, poolName } = this.#parts;
    await label.change((payload) => {
      if (payload.object !== undefined) {
        throw new ResourceExhausted(`pool ${poolName} has one disk, and a volume on it, or the rest of one.`);
      }
      return { ...payload, object: { name: this.#name, state: 'draft' } };
    });
  }

  async takenBytes(): Promise<bigint> {
    const { payload } = this.#parts.label;
    return objectNamed(payload, this.#name) === undefined ? 0n : payload.data.lengthBytes;
  }

  clone(): Clone {
    throw new FailedPrecondition(`pool ${this.#parts.poolName} has no clones of volumes.`);
  }

  async make(record: VolumeRecord, data: NewData): Promise<void> {
    const { calls, formatQueue, label, poolName } = this.#parts;
    const { lengthBytes } = label.payload.data;
    if (data.sizeBytes !== lengthBytes) {
      throw new ResourceExhausted(
        `pool ${poolName} has volumes of ${lengthBytes} bytes (${formatBytes(lengthBytes)}) only: all of its disk.`,
      );
    }
    if (data.content.type === 'mount') {
      const target: FormatTarget = {
        calls,
        formatQueue,
        withDevice: (work) => this.withDevice(data.blockSizeBytes, work),
      };
      const { content, ...rest } = data;
      await step('create/format', () => formatVolume(target, { ...rest, fsType: content.fsType }));
    }
    this.#record = storedRecord(record);
  }

  async complete(): Promise<void> {
    throw new InternalError('there are no clones on a disk.');
  }

  async withDevice<T>(_blockSizeBytes: number, work: (devicePath: string) => Promise<T>): Promise<T> {
    const { calls, openData } = this.#parts;
    const { descriptor, devicePath } = await openData(calls, this.#name);
    // Open for as long as that takes: so nothing else is given its number.
    await using _held = descriptor;
    const result = await work(devicePath);
    await syncFile(calls, descriptor);
    return result;
  }

  async commit(): Promise<void> {
    const { calls, mapped } = this.#parts;
    // From then on a device says that the volume is in use.
    await mapped.letGo(calls, mapped.data(this.#name));
    this.#isCommitting = true;
    const record = this.#record;
    await changeObject(this.#parts.label, this.#name, 'draft', ({ name }) => ({ name, state: 'volume', record }));
  }

  async discard(): Promise<TrashRef | undefined> {
    const { label } = this.#parts;
    if (this.#isCommitting) await label.refresh();
    const object = objectNamed(label.payload, this.#name);
    if (object === undefined) return undefined;
    if (object.state !== 'draft') {
      await changeObject(label, this.#name, object.state, ({ name }) => ({ name, state: 'removed' }));
    }
    return this.#name;
  }
}
