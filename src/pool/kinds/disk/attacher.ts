import { mappedPath } from '../../../kernel/block/device-mapper.ts';
import { isNodeOf, readMountTable } from '../../../kernel/mount/mount-table.ts';
import type { VolumeId } from '../../../volume/id.ts';
import type { VolumeRecord } from '../../../volume/record.ts';
import { step } from '../../../volume/step.ts';
import type { Attacher } from '../../backend.ts';
import { seenVolume } from '../../device-content.ts';
import type { Attached, Attachment, Seen, SeenVolume } from '../../pool.ts';
import type { DiskParts } from './disk-backend.ts';
import { idOfObject } from './names.ts';
import { volumeOf } from './objects.ts';

type AttachedDisk = Extract<Attached, { kind: 'device' }>;

/** A volume is attached while there is a device that shows its part of the disk. The kernel tells, and no disk is asked. */
export class DiskAttacher implements Attacher {
  readonly rescue: Attacher['rescue'];
  readonly #parts: DiskParts;

  constructor(parts: DiskParts) {
    this.#parts = parts;
    this.rescue = {
      attached: (id) => this.attached(id),
      volumeSeen: (seen) => this.volumeSeen(seen),
      detach: async (attached) => {
        const name = attached.kind === 'device' ? this.#objectOf(attached) : undefined;
        const { mapped, queue } = parts;
        if (name === undefined) return;
        await queue.rescue((rescue) => step('detach/device', () => mapped.remove(rescue, mapped.data(name))));
      },
    };
  }

  async attach(record: VolumeRecord): Promise<Attachment> {
    const { calls, label, openData } = this.#parts;
    const object = volumeOf(label.payload, record.id);
    if (object === undefined) throw this.#parts.missing(record.id);
    const { descriptor, device, devicePath } = await openData(calls, object.name);
    const release = () => descriptor[Symbol.asyncDispose]();
    return { kind: 'device', devicePath, device, readonly: false, descriptor, release };
  }

  async attached(id: VolumeId): Promise<AttachedDisk[]> {
    const object = volumeOf(this.#parts.label.payload, id);
    return object === undefined ? [] : this.#attached(object.name);
  }

  inUse(id: VolumeId): Promise<AttachedDisk[]> {
    return this.attached(id);
  }

  /** Another program may have it open, in another mount namespace: it stays. */
  async detach(attached: Attached): Promise<void> {
    const { calls, label, mapped } = this.#parts;
    const name = attached.kind === 'device' ? this.#objectOf(attached) : undefined;
    if (name === undefined || label.payload.object?.name !== name) return;
    await step('detach/device', () => mapped.remove(calls, mapped.data(name)));
  }

  async volumeSeen(seen: Seen): Promise<SeenVolume | undefined> {
    const { device } = seen;
    const id = device && idOfObject(this.#parts.mapped.objectOf(device) ?? '');
    return id && seenVolume(id, seen);
  }

  async all(): Promise<AttachedDisk[]> {
    const { object } = this.#parts.label.payload;
    return object?.state === 'volume' ? this.#attached(object.name) : [];
  }

  async counts(): Promise<ReadonlyMap<string, number>> {
    const { object } = this.#parts.label.payload;
    const isAttached = (await this.all()).length > 0;
    return new Map(isAttached && object !== undefined ? [[idOfObject(object.name) ?? '', 1]] : []);
  }

  /** Removes devices that are neither open nor shown, and those that show a volume that is gone. */
  async detachOrphans(): Promise<VolumeId[]> {
    const { calls, mapped, queue } = this.#parts;
    const orphans: VolumeId[] = [];
    for (const name of await mapped.objects(queue)) {
      const state = mapped.find(mapped.data(name));
      if (state === undefined || state.openCount > 0) continue;
      const table = await readMountTable(queue);
      if (table.some((mount) => isNodeOf(mount, mappedPath(state.device)))) continue;
      const isGone = await step('detach/device', () => mapped.remove(calls, mapped.data(name)));
      const id = idOfObject(name);
      if (isGone && id !== undefined) orphans.push(id);
    }
    return orphans;
  }

  #objectOf({ device }: AttachedDisk): string | undefined {
    return this.#parts.mapped.objectOf(device);
  }

  #attached(name: string): AttachedDisk[] {
    const { mapped } = this.#parts;
    const found = mapped.find(mapped.data(name));
    if (found === undefined) return [];
    return [{ kind: 'device', device: found.device, devicePath: mappedPath(found.device), readonly: false }];
  }
}
