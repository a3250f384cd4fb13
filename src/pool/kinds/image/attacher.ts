import { setTimeout as delay } from 'node:timers/promises';
import {
  attachLoop,
  detachLoop,
  holdLoop,
  type LoopStatus,
  listLoops,
  loopStatus,
  nothingIfSick,
  refreshLoopSize,
} from '../../../kernel/block/loop.ts';
import {
  diskSequence,
  findLoops,
  type LoopSight,
  loopBackingPaths,
  loopNumber,
  loopSight,
} from '../../../kernel/block/loop-sysfs.ts';
import type { Descriptor } from '../../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { isErrno } from '../../../kernel/call/errno.ts';
import { type DeviceNumber, sameDevice } from '../../../kernel/device.ts';
import { type FileStatus, statusOf } from '../../../kernel/file/path.ts';
import { isNodeOf, readMountTable } from '../../../kernel/mount/mount-table.ts';
import { mayShowAny } from '../../../kernel/mount/mounts-of-device.ts';
import { isOpenElsewhere, isSoleOpener } from '../../../kernel/process/lock.ts';
import { FailedPrecondition } from '../../../volume/errors.ts';
import { fewAtOnce } from '../../../volume/flow/few-at-once.ts';
import { parseVolumeId, type VolumeId } from '../../../volume/id.ts';
import type { VolumeRecord } from '../../../volume/record.ts';
import { step } from '../../../volume/step.ts';
import type { Attacher } from '../../backend.ts';
import { seenVolume } from '../../device-content.ts';
import type { Attached, AttachedDevice, Attachment, Seen, SeenVolume } from '../../pool.ts';
import type { Layout } from '../../records/layout.ts';
import type { UntimedFiles } from '../../records/untimed-files.ts';
import { devicesByPath } from './devices-by-path.ts';
import { imageOf, openImage } from './image-file.ts';

/** Four seconds in all: a look at a device takes milliseconds, unless the machine is busy. */
const settlePausesMs = [1, 2, 4, 8, 16, 32, 64, ...Array.from({ length: 30 }, () => 128)];

interface SeenDevice {
  readonly sequence: string | undefined;
  readonly label: string;
  /** undefined: not of this pool. */
  readonly id: VolumeId | undefined;
}

interface Owner {
  readonly id: VolumeId;
  readonly isImageGone: boolean;
}

/**
 * The loop devices of a pool's images. The kernel is the only book-keeper: each device carries its volume's id as a
 * label (lo_file_name of loop(4)), and a lease on the image tells in constant time whether any device has it open, so
 * the list of all loop devices is read only for volumes that are in use.
 */
export class ImageAttacher implements Attacher {
  readonly #queue: DiskQueue;
  readonly #layout: Layout;
  readonly #untimed: UntimedFiles | undefined;
  /** The volumes of the devices at the last look, by number: valid for as long as nothing else is attached. */
  readonly #seen = new Map<number, SeenDevice>();

  readonly rescue: Attacher['rescue'];

  /** @param untimed for images whose times no write changes */
  constructor(queue: DiskQueue, layout: Layout, untimed?: UntimedFiles) {
    this.#queue = queue;
    this.#layout = layout;
    this.#untimed = untimed;
    this.rescue = devicesByPath(queue);
  }

  /**
   * The image must never have two writable devices: two filesystems on the same blocks, each sure to be alone. So the
   * device that is there is used again, also when its mount lives on in another mount namespace.
   */
  async attach(record: VolumeRecord, options: { persistent: boolean }): Promise<Attachment> {
    const { id } = record;
    const image = await openImage(this.#queue, imageOf(this.#layout, { kind: 'volume', record }), 'write');
    // Open nowhere else, so no device shows it, and a new device will show the file that was opened for the look.
    if (isSoleOpener(image)) return this.#attachNew(record, image, options);
    await image[Symbol.asyncDispose]();
    const isGoing = (loop: LoopStatus) => loop.label !== id || (options.persistent && loop.autoclear && !loop.readonly);
    const inUse = await this.#settled(id, async (loops) => loops.some(isGoing));
    // For example the device through which a clone was given its identity: a mount of it would not be the volume's.
    const other = inUse.find(({ label }) => label !== id);
    if (other !== undefined) throw deviceOfOthers(id, other);
    const found = inUse.find((loop) => !loop.readonly);
    if (found !== undefined) {
      // If it goes while we take hold of it, there is none, and we look again.
      return (await this.#reuse(id, found, options.persistent)) ?? this.attach(record, options);
    }
    const again = await openImage(this.#queue, imageOf(this.#layout, { kind: 'volume', record }), 'write');
    return this.#attachNew(record, again, options);
  }

  async #attachNew(
    { blockSizeBytes, id }: VolumeRecord,
    opened: Descriptor,
    { persistent }: { persistent: boolean },
  ): Promise<Attachment> {
    await using image = opened;
    const backing = (await this.#untimed?.reopen(this.#queue, id, image)) ?? image;
    const request = { backing, label: id, readonly: false, autoclear: !persistent, blockSizeBytes };
    const loop = await step('attach/device', () => attachLoop(this.#queue, request));
    // The loop device has the file open now.
    image.closeNow();
    const { descriptor, device, devicePath } = loop;
    this.#seen.set(loop.number, { sequence: diskSequence(loop.number), label: id, id });
    return {
      kind: 'device',
      devicePath,
      device,
      readonly: false,
      descriptor,
      release: () => descriptor[Symbol.asyncDispose](),
    };
  }

  /**
   * The devices that keep the volume in use. After an unmount or detach the kernel's device lingers for as long as some
   * process, udev or a mkfs say, looks at it: such a device gets a moment to go.
   */
  async inUse(id: VolumeId): Promise<AttachedLoop[]> {
    const isLingering = async (loops: readonly LoopSight[]) =>
      loops.every(({ autoclear }) => autoclear) && !(await this.#isMounted(loops));
    const pauses = settlePausesMs.values();
    // The device that was there before, if it is one: a look into sysfs keeps none, and the list of all may be long.
    for (const pauseMs of pauses) {
      const seen = this.#stillSeen(id);
      if (seen.length === 0 || !(await isLingering(seen))) break;
      await delay(pauseMs);
    }
    return (await this.#settled(id, isLingering, pauses)).map(attachedLoop);
  }

  /** The devices of the volume that are as they were at the last look. */
  #stillSeen(id: VolumeId): LoopSight[] {
    return Array.from(this.#seen).flatMap(([number, seen]) => {
      const isStill = seen.id === id && seen.sequence !== undefined && seen.sequence === diskSequence(number);
      return isStill ? [loopSight(number)] : [];
    });
  }

  async #isMounted(loops: readonly LoopSight[]): Promise<boolean> {
    const table = await readMountTable(this.#queue);
    return mayShowAny(this.#queue, table, { devices: loops.map(({ device }) => device) });
  }

  async attached(id: VolumeId): Promise<AttachedLoop[]> {
    return (await this.#loops(id)).map(attachedLoop);
  }

  /**
   * The devices of all volumes of the pool. Not of those whose image is gone: another pool may lie on the same
   * filesystem, and would not know of changes to its devices here.
   */
  async all(): Promise<AttachedLoop[]> {
    const paths = await loopBackingPaths(this.#queue);
    const numbers = Array.from(paths).flatMap(([number, path]) => (isOfVolume(path) ? [number] : []));
    const looks = await fewAtOnce(numbers, (number) => this.#lookAt(number));
    return looks.flatMap((look) => (look?.owner?.isImageGone === false ? [attachedLoop(look.loop)] : []));
  }

  /**
   * The number of devices that show each volume, by the names of their files alone: nothing is opened, as that would keep
   * a device that is about to go.
   */
  async counts(): Promise<ReadonlyMap<string, number>> {
    const counts = new Map<string, number>();
    for (const path of (await loopBackingPaths(this.#queue)).values()) {
      const id = volumePath.exec(path)?.[1];
      if (id !== undefined) counts.set(id, (counts.get(id) ?? 0) + 1);
    }
    return counts;
  }

  /** Tells the devices of a volume that its image has grown. */
  async grown(id: VolumeId): Promise<void> {
    for (const loop of await this.#loops(id)) {
      await step('grow/device', () => refreshLoopSize(this.#queue, loop.number)).catch((error) => {
        // It went while we looked: its last user has gone.
        if (!isErrno(error, 'ENXIO')) throw error;
      });
    }
  }

  async detach(attached: Attached): Promise<void> {
    const number = attached.kind === 'device' ? loopNumber(attached.device) : undefined;
    if (attached.kind !== 'device' || number === undefined) return;
    if ((await this.#volumeOf(attached.device)) === undefined) return;
    const isOurs = async (read: () => Promise<LoopStatus>) => (await this.#owner(await read())) !== undefined;
    await step('detach/device', () => detachLoop(this.#queue, number, isOurs));
  }

  async volumeSeen(seen: Seen): Promise<SeenVolume | undefined> {
    const id = seen.device === undefined ? undefined : await this.#volumeOf(seen.device);
    return id && seenVolume(id, seen);
  }

  /** From the label, so it also names volumes whose record or image is gone. */
  async #volumeOf(device: DeviceNumber): Promise<VolumeId | undefined> {
    const number = loopNumber(device);
    if (number === undefined) return undefined;
    const sequence = diskSequence(number);
    const seen = this.#seen.get(number);
    if (sequence !== undefined && seen?.sequence === sequence) return seen.id;
    return (await this.#lookAt(number))?.owner?.id;
  }

  /** Remembers the volume. @returns undefined if no file is attached there */
  async #lookAt(number: number): Promise<{ readonly loop: LoopStatus; readonly owner: Owner | undefined } | undefined> {
    // Read first: a device that is made in between is looked at again.
    const sequence = diskSequence(number);
    // A failure: the device is another pool's, or the health of this one will show it.
    const loop = await loopStatus(this.#queue, number).catch(nothingIfSick);
    if (loop === undefined) return undefined;
    const owner = await this.#owner(loop);
    if (owner?.isImageGone !== true) this.#seen.set(number, { sequence, label: loop.label, id: owner?.id });
    return { loop, owner };
  }

  /** Nothing is known any more of devices of this volume: its image is another one, or gone. */
  forget(id: VolumeId): void {
    for (const [number, { label }] of this.#seen) if (label === id) this.#seen.delete(number);
  }

  /**
   * Detaches persistent devices that are not shown anywhere: a driver was killed between making the device and showing it. The
   * kernel waits for the last user of a device that is open after all.
   */
  async detachOrphans(): Promise<VolumeId[]> {
    // By what sysfs shows: the kernel detaches most devices with their last user, and those are not opened.
    const persistent = (await findLoops(this.#queue, isOfVolume)).filter(({ autoclear }) => !autoclear);
    if (persistent.length === 0) return [];
    const table = await readMountTable(this.#queue);
    const detached: VolumeId[] = [];
    for (const { device, devicePath } of persistent) {
      const number = loopNumber(device);
      if (number === undefined || table.some((mount) => isNodeOf(mount, devicePath))) continue;
      const look = await this.#lookAt(number);
      const { owner } = look ?? {};
      if (owner === undefined || owner.isImageGone || look?.loop.autoclear === true) continue;
      const isStill = async (read: () => Promise<LoopStatus>) => (await this.#owner(await read()))?.id === owner.id;
      await step('detach/device', () => detachLoop(this.#queue, number, isStill));
      detached.push(owner.id);
    }
    return detached;
  }

  /** The devices of a volume, once they are no longer `lingering`, or after a moment anyway. */
  async #settled(
    id: VolumeId,
    lingering: (loops: readonly LoopStatus[]) => Promise<boolean>,
    pausesMs: Iterable<number> = settlePausesMs,
  ): Promise<LoopStatus[]> {
    let loops = await this.#loops(id);
    for (const pauseMs of pausesMs) {
      if (loops.length === 0 || !(await lingering(loops))) break;
      await delay(pauseMs);
      loops = await this.#loops(id);
    }
    return loops;
  }

  /**
   * The volume of a device: the label names it, and the image must be that volume's in this pool. Another pool may lie on
   * the same filesystem. An image that is gone cannot be compared.
   */
  async #owner(loop: LoopStatus): Promise<Owner | undefined> {
    const id = parseVolumeId(loop.label);
    if (id === undefined) return undefined;
    try {
      const image = await statusOf(this.#queue, this.#layout.data(id));
      return isOver(loop, image) ? { id, isImageGone: false } : undefined;
    } catch (error) {
      if (!isErrno(error, 'ENOENT')) throw error;
      const location = await statusOf(this.#queue, this.#layout.volumes);
      return sameDevice(loop.backingDevice, location.device) ? { id, isImageGone: true } : undefined;
    }
  }

  /** By inode, so that a device made by hand with losetup(8) counts too. */
  async #loops(id: VolumeId): Promise<LoopStatus[]> {
    const path = this.#layout.data(id);
    try {
      if (!(await isOpenElsewhere(this.#queue, path))) return [];
      const image = await statusOf(this.#queue, path);
      const named = await listLoops(this.#queue, (backingPath) => backingPath.includes(id));
      const found = named.filter((loop) => isOver(loop, image));
      if (found.length > 0) return found;
      // It may be open under another name, by another path.
      return (await listLoops(this.#queue)).filter((loop) => isOver(loop, image));
    } catch (error) {
      if (!isErrno(error, 'ENOENT')) throw error;
      // An image removed by hand: a device that still shows it is known by its label.
      const named = await listLoops(this.#queue, (backingPath) => backingPath.includes(id));
      return named.filter((loop) => loop.label === id);
    }
  }

  /** @returns undefined if the device has gone */
  async #reuse(id: VolumeId, loop: LoopStatus, persistent: boolean): Promise<Attachment | undefined> {
    if (persistent && loop.autoclear) {
      throw new FailedPrecondition(
        `volume ${id}: its last device ${loop.devicePath} is being detached but a process still has it open. End that process (fuser ${loop.devicePath}) and try again.`,
      );
    }
    const hold = await holdLoop(this.#queue, loop);
    if (hold === undefined) return undefined;
    const { devicePath, device, readonly } = loop;
    return {
      kind: 'device',
      devicePath,
      device,
      readonly,
      descriptor: hold,
      release: () => hold[Symbol.asyncDispose](),
    };
  }
}

type AttachedLoop = Extract<Attached, { kind: 'device' }>;

function attachedLoop({ device, devicePath, readonly }: AttachedDevice): AttachedLoop {
  return { kind: 'device', device, devicePath, readonly };
}

function deviceOfOthers(id: VolumeId, { devicePath }: LoopStatus): FailedPrecondition {
  return new FailedPrecondition(
    `volume ${id}: its image is shown by ${devicePath}, which was not made for it. Detach it (losetup -d ${devicePath}) and try again.`,
  );
}

/** The image of a volume lies in a directory with the volume's id, whatever mount that is seen through. */
const volumePath = /\/(vol-[a-z2-7]{26})/;

function isOfVolume(backingPath: string): boolean {
  return volumePath.test(backingPath);
}

function isOver(loop: LoopStatus, image: FileStatus): boolean {
  return sameDevice(loop.backingDevice, image.device) && loop.backingInode === image.inode;
}
