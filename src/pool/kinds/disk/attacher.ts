import { setTimeout as delay } from 'node:timers/promises';
import type { DeviceNumber } from '../../../kernel/block/device.ts';
import type { Partition } from '../../../kernel/block/partition.ts';
import { readMountTable } from '../../../kernel/mount/mount-table.ts';
import { FailedPrecondition } from '../../../volume/errors.ts';
import type { VolumeId } from '../../../volume/id.ts';
import type { VolumeRecord } from '../../../volume/record.ts';
import { mountsOf } from '../../attached-mounts.ts';
import type { Attacher } from '../../backend.ts';
import type { Attached, Attachment, Seen, SeenVolume } from '../../pool.ts';
import type { DiskParts } from './disk-backend.ts';
import { volumeOf } from './disks.ts';
import type { OwnDisk } from './own-disk.ts';
import { diskOfPartition, hideData, nodeOf, openShown, showData, shownData } from './shown.ts';

type AttachedPartition = Extract<Attached, { kind: 'device' }>;

/** Four seconds in all: whoever looks at a partition that was unmounted takes milliseconds, unless the machine is busy. */
const settlePausesMs = [1, 2, 4, 8, 16, 32, 64, ...Array.from({ length: 30 }, () => 128)];

/** The partitions of a pool's disks. The kernel is the only book-keeper: a volume is attached while it is shown. */
export class DiskAttacher implements Attacher {
  readonly rescue: Attacher['rescue'];
  readonly #parts: DiskParts;
  /** Of disks that are gone while they are mounted, the kernel tells no more than the number. */
  readonly #numbers = new Map<string, VolumeId>();

  constructor(parts: DiskParts) {
    this.#parts = parts;
    this.rescue = {
      attached: (id) => this.attached(id),
      detach: (attached) => this.detach(attached),
      volumeSeen: (seen) => this.volumeSeen(seen),
    };
  }

  async attach({ id }: VolumeRecord, { persistent }: { readonly persistent: boolean }): Promise<Attachment> {
    const { disks } = this.#parts;
    if (disks.find(id) === undefined) await disks.scan();
    const own = disks.require(id);
    // By the label that lies on the disk now, whatever was read before.
    if (volumeOf(await own.reread()) !== id) {
      throw new FailedPrecondition(`volume ${id}: ${own.disk.devicePath} does not have its label any more.`);
    }
    const partition = await showData(own);
    if (persistent) await this.#hold(id, own, partition);
    const descriptor = await openShown(own, partition);
    this.#numbers.set(`${partition.device.major}:${partition.device.minor}`, id);
    return {
      kind: 'device',
      devicePath: nodeOf(partition.name),
      device: partition.device,
      readonly: false,
      descriptor,
      release: () => descriptor[Symbol.asyncDispose](),
    };
  }

  async attached(id: VolumeId): Promise<AttachedPartition[]> {
    const own = this.#parts.disks.find(id);
    return own === undefined ? [] : this.#attachedOf(own);
  }

  async #attachedOf(own: OwnDisk): Promise<AttachedPartition[]> {
    const partition = await shownData(own);
    if (partition === undefined) return [];
    return [attachedAs(partition)];
  }

  /** What the kernel shows by itself, and nobody has open, goes: that it was in use would be a lie. */
  async inUse(id: VolumeId): Promise<readonly Attached[]> {
    const own = this.#parts.disks.find(id);
    if (own === undefined) return [];
    for (const pauseMs of [0, ...settlePausesMs]) {
      await delay(pauseMs);
      const attached = await this.#attachedOf(own);
      if (attached.length === 0) return [];
      const isHeld = attached.some(({ device }) => this.#parts.partitions.holds(id, device));
      if (isHeld || (await this.#isShownHere(attached))) return attached;
      if (await hideData(own)) return [];
    }
    return this.#attachedOf(own);
  }

  async #isShownHere(attached: readonly Attached[]): Promise<boolean> {
    const { queue } = this.#parts;
    const table = await readMountTable(queue);
    return table.some(await mountsOf(queue, attached, table));
  }

  async detach(attached: Attached): Promise<void> {
    if (attached.kind !== 'device') return;
    const own = await this.#ownOf(attached.device);
    const id = own && volumeOf(own.use);
    if (own === undefined || id === undefined) return;
    await this.#parts.partitions.release(id);
    for (const pauseMs of [0, ...settlePausesMs]) {
      await delay(pauseMs);
      if (await hideData(own)) return this.forget(id);
    }
  }

  async volumeSeen({ device, mount }: Seen): Promise<SeenVolume | undefined> {
    if (device === undefined) return undefined;
    const own = await this.#ownOf(device);
    const id = own === undefined ? await this.#ofGoneDisk(device) : volumeOf(own.use);
    return id && { id, isWhole: mount === undefined || mount.root === '/' };
  }

  async all(): Promise<AttachedPartition[]> {
    const { disks } = this.#parts;
    const volumes = disks.own().filter(({ use }) => volumeOf(use) !== undefined);
    return (await Promise.all(volumes.map((own) => this.#attachedOf(own)))).flat();
  }

  async counts(): Promise<ReadonlyMap<VolumeId, number>> {
    const counts = new Map<VolumeId, number>();
    for (const own of this.#parts.disks.own()) {
      const id = volumeOf(own.use);
      if (id !== undefined && (await shownData(own)) !== undefined) counts.set(id, 1);
    }
    return counts;
  }

  /**
   * What a driver before has shown, or a kernel that started: the kernel keeps what somebody has open. What a pod still has
   * is held as before.
   */
  async detachOrphans(): Promise<VolumeId[]> {
    const detached: VolumeId[] = [];
    for (const own of this.#parts.disks.own()) {
      const partition = await shownData(own);
      if (partition === undefined) continue;
      const { use } = own;
      if (await this.#isShownHere([attachedAs(partition)])) {
        if (use.state === 'volume' && use.record.content.type === 'block') {
          await this.#hold(use.record.id, own, partition);
        }
        continue;
      }
      const id = volumeOf(use);
      if ((await hideData(own)) && id !== undefined) detached.push(id);
    }
    return detached;
  }

  #hold(id: VolumeId, own: OwnDisk, partition: Partition): Promise<void> {
    return this.#parts.partitions.hold(id, partition.device, () => openShown(own, partition));
  }

  async grown(): Promise<void> {}

  forget(id: VolumeId): void {
    void this.#parts.partitions.release(id);
    for (const [number, known] of this.#numbers) if (known === id) this.#numbers.delete(number);
  }

  async #ownOf(device: DeviceNumber): Promise<OwnDisk | undefined> {
    const name = await diskOfPartition(this.#parts.queue, device);
    return name === undefined ? undefined : this.#parts.disks.own().find(({ disk }) => disk.name === name);
  }

  /**
   * Nothing else can have its number as long as it is mounted; the disk may be back meanwhile, with another number. What the
   * kernel still knows is not of a disk that is gone.
   */
  async #ofGoneDisk(device: DeviceNumber): Promise<VolumeId | undefined> {
    const id = this.#numbers.get(`${device.major}:${device.minor}`);
    return id !== undefined && (await diskOfPartition(this.#parts.queue, device)) === undefined ? id : undefined;
  }
}

function attachedAs({ device, name }: Partition): AttachedPartition {
  return { kind: 'device', device, devicePath: nodeOf(name), readonly: false };
}
