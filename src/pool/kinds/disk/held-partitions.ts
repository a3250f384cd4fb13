import { type DeviceNumber, sameDevice } from '../../../kernel/block/device.ts';
import type { Descriptor } from '../../../kernel/call/descriptor.ts';
import type { VolumeId } from '../../../volume/id.ts';

interface Held {
  readonly device: DeviceNumber;
  readonly descriptor: Descriptor;
}

/**
 * Partitions of raw block volumes, open for as long as they are attached, as a filesystem keeps its own while it is
 * mounted. A pod has only a node with the number, and need not have it open. Whoever closes the disk after a write, smartctl
 * say, makes udev have the kernel read the table anew (BLKRRPART): that takes away all partitions that nobody has open, and
 * the number may be another one's afterwards. It is refused as long as one is open. Of a disk that was pulled, nobody else
 * gets the number.
 */
export class HeldPartitions implements AsyncDisposable {
  readonly #held = new Map<VolumeId, Held>();

  holds(id: VolumeId, device: DeviceNumber): boolean {
    return sameDevice(this.#held.get(id)?.device, device);
  }

  async hold(id: VolumeId, device: DeviceNumber, open: () => Promise<Descriptor>): Promise<void> {
    if (this.holds(id, device)) return;
    const descriptor = await open();
    const before = this.#held.get(id);
    this.#held.set(id, { device, descriptor });
    await before?.descriptor[Symbol.asyncDispose]();
  }

  /** The last user but us may have left: now it can go. */
  async release(id: VolumeId): Promise<void> {
    const held = this.#held.get(id);
    this.#held.delete(id);
    await held?.descriptor[Symbol.asyncDispose]();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#held.keys()].map((id) => this.release(id)));
  }
}
