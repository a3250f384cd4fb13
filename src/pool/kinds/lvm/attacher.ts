import { sizeOfDevice } from '../../../kernel/block/block.ts';
import { mappedPath } from '../../../kernel/block/device-mapper.ts';
import type { DeviceNumber } from '../../../kernel/device.ts';
import { isNodeOf, readMountTable } from '../../../kernel/mount/mount-table.ts';
import { DataLoss } from '../../../volume/errors.ts';
import { parseVolumeId, type VolumeId } from '../../../volume/id.ts';
import type { VolumeRecord } from '../../../volume/record.ts';
import { step } from '../../../volume/step.ts';
import type { Attacher } from '../../backend.ts';
import { seenVolume } from '../../device-content.ts';
import type { Attached, Attachment, Seen, SeenVolume } from '../../pool.ts';
import type { OwnLv } from './group/group-state.ts';
import { openLv } from './lv-device.ts';
import type { LvmParts } from './lvm-backend.ts';
import { idOfLvName } from './names.ts';

type AttachedLv = Extract<Attached, { kind: 'device' }>;

/**
 * The devices of logical volumes: a volume is attached while its logical volume is active, but for those that are active
 * only because they were just made. The kernel tells which are, and no disk is asked.
 */
export class LvmAttacher implements Attacher {
  readonly rescue: Attacher['rescue'];
  readonly #parts: LvmParts;

  constructor(parts: LvmParts) {
    this.#parts = parts;
    this.rescue = {
      attached: (id) => this.attached(id),
      volumeSeen: (seen) => this.volumeSeen(seen),
      detach: async (attached) => {
        const lvName = attached.kind === 'device' ? parts.group.nameOfDevice(attached.device) : undefined;
        // LVM would read the disk first.
        if (lvName !== undefined)
          await parts.queue.rescue((queue) => step('detach/device', () => parts.group.removeDevice(queue, lvName)));
      },
    };
  }

  /** One that is inactive, after a reboot say, is activated: that it has no device says nothing of its data. */
  async attach(record: VolumeRecord): Promise<Attachment> {
    const { calls, group, idle } = this.#parts;
    const lv = group.find(record.id);
    if (lv === undefined) throw this.#parts.missing({ kind: 'volume', record });
    const { descriptor, device, devicePath } = await openLv(calls, group, lv.name);
    const sizeBytes = sizeOfDevice(descriptor);
    if (sizeBytes < record.sizeBytes) {
      await descriptor[Symbol.asyncDispose]();
      // Else it would be in use, and could not be deleted.
      await step('detach/device', () => group.deactivate([lv.name])).catch(() => undefined);
      throw new DataLoss(
        `volume ${record.id}: its device ${devicePath} has only ${sizeBytes} of ${record.sizeBytes} bytes: data is missing.`,
      );
    }
    idle.delete(lv.name);
    const release = () => descriptor[Symbol.asyncDispose]();
    return { kind: 'device', devicePath, device, readonly: false, descriptor, release };
  }

  async attached(id: VolumeId): Promise<AttachedLv[]> {
    const lv = this.#parts.group.find(id);
    return lv === undefined ? [] : this.#attached(lv);
  }

  inUse(id: VolumeId): Promise<AttachedLv[]> {
    return this.attached(id);
  }

  async detach(attached: Attached): Promise<void> {
    const { group, idle } = this.#parts;
    const lvName = attached.kind === 'device' ? group.nameOfDevice(attached.device) : undefined;
    if (lvName === undefined || group.get(lvName)?.state === undefined) return;
    // Another program has it open, in another mount namespace: it stays.
    await step('detach/device', () => group.deactivate([lvName]));
    if (group.deviceOf(lvName) === undefined) idle.delete(lvName);
  }

  async volumeSeen(seen: Seen): Promise<SeenVolume | undefined> {
    const { device } = seen;
    const lvName = device === undefined ? undefined : this.#parts.group.nameOfDevice(device);
    const id = parseVolumeId(lvName === undefined ? '' : (idOfLvName(lvName) ?? ''));
    return id && seenVolume(id, seen);
  }

  async all(): Promise<AttachedLv[]> {
    return this.#parts.group.inState('volume').flatMap((lv) => this.#attached(lv));
  }

  async counts(): Promise<ReadonlyMap<string, number>> {
    const volumes = this.#parts.group.inState('volume').filter((lv) => this.#attached(lv).length > 0);
    return new Map(volumes.map(({ id }) => [id ?? '', 1]));
  }

  /** Deactivates volumes that are active, but neither open nor shown. */
  async detachOrphans(): Promise<VolumeId[]> {
    const { group, queue } = this.#parts;
    const active = group.inState('volume').flatMap((lv) => {
      const mapped = group.deviceOf(lv.name);
      return mapped === undefined || mapped.openCount > 0 ? [] : [{ lv, device: mapped.device }];
    });
    if (active.length === 0) return [];
    const table = await readMountTable(queue);
    const isShown = (device: DeviceNumber) => table.some((mount) => isNodeOf(mount, mappedPath(device)));
    const orphans = active.filter(({ device }) => !isShown(device)).map(({ lv }) => lv);
    if (orphans.length === 0) return [];
    await step('detach/device', () => group.deactivate(orphans.map(({ name }) => name)));
    return orphans.flatMap(({ id }) => parseVolumeId(id ?? '') ?? []);
  }

  #attached({ name }: OwnLv): AttachedLv[] {
    const { group, idle } = this.#parts;
    const mapped = idle.has(name) ? undefined : group.deviceOf(name);
    if (mapped === undefined) return [];
    return [{ kind: 'device', device: mapped.device, devicePath: mappedPath(mapped.device), readonly: false }];
  }
}
