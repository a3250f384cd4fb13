import { constants } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import {
  type DeviceMapper,
  findMapped,
  type MappedState,
  mappedDevice,
  mappedOver,
  mappedPath,
} from '../../../kernel/block/device-mapper.ts';
import type { Descriptor } from '../../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { isErrno } from '../../../kernel/call/errno.ts';
import { type DeviceNumber, sameDevice } from '../../../kernel/device.ts';
import { FailedPrecondition } from '../../../volume/errors.ts';
import { step } from '../../../volume/step.ts';
import { type FoundDisk, requireStill } from '../../location/disk/found-disk.ts';
import { openStill } from '../../mapped-device.ts';
import type { Extent } from './label/layout.ts';
import { dataDevice, labelDevice, type MappedName, mappedUuidPrefix, objectOfMapped } from './names.ts';

/** A device that is open. */
export interface MappedNode {
  readonly descriptor: Descriptor;
  readonly device: DeviceNumber;
  readonly devicePath: string;
}

/** A program that checks whether a disk is free has it exclusively for a moment: `holdfast disks`, or another driver. */
const busyPausesMs = [1, 10, 100, 1000];
const goingPausesMs = [10, 30, 100, 300, 1000, 3000];

/**
 * The devices of device-mapper that show parts of a pool's disk: its label, and its volume. As long as there is one, no other
 * program can have the disk or its partition exclusively: no mkfs, no mount, no volume manager.
 */
export class MappedParts {
  readonly poolName: string;
  readonly poolId: string;
  readonly #mapper: DeviceMapper;
  readonly #found: FoundDisk;

  constructor(poolName: string, poolId: string, mapper: DeviceMapper, found: FoundDisk) {
    this.poolName = poolName;
    this.poolId = poolId;
    this.#mapper = mapper;
    this.#found = found;
  }

  get label(): MappedName {
    return labelDevice(this.poolId);
  }

  data(objectName: string): MappedName {
    return dataDevice(this.poolId, objectName);
  }

  /** The kernel's current device; no disk is asked. undefined: there is none, or it goes with its last user. */
  find(wanted: MappedName): MappedState | undefined {
    const found = this.#mapper.find(wanted.name);
    return found?.uuid === wanted.uuid && !found.isGoing ? found : undefined;
  }

  /** The object of this pool's disk that a device shows; undefined: none. */
  objectOf(device: DeviceNumber): string | undefined {
    const mapped = this.#mapper.find(device);
    return mapped?.uuid.startsWith(mappedUuidPrefix(this.poolId)) === true ? objectOfMapped(mapped) : undefined;
  }

  /** All of this pool's devices that show data. */
  async objects(queue: DiskQueue): Promise<string[]> {
    const mapped = await findMapped(queue, (name) => name.startsWith('holdfast-'));
    return mapped.flatMap(({ device }) => this.objectOf(device) ?? []);
  }

  /** True if a device is made of the disk as it is there now: not of one that was pulled, even if it was put back. */
  isOverDisk({ device, isLive }: MappedState): boolean {
    const backing = mappedDevice(device)?.backing ?? [];
    return isLive && backing.length === 1 && sameDevice(backing[0], this.#found.device);
  }

  /**
   * Opens the device, making it if need be. Its number is given to another as soon as it is gone, so the opened device is
   * compared with the kernel's answer after that.
   */
  async open(
    queue: DiskQueue,
    wanted: MappedName,
    part: Extent,
    flags: number = constants.O_RDONLY,
  ): Promise<MappedNode> {
    return this.#open(queue, wanted, await this.#ensure(queue, wanted, part), flags);
  }

  /** The same, if it is there. */
  async openIfThere(queue: DiskQueue, wanted: MappedName): Promise<MappedNode | undefined> {
    const there = this.find(wanted);
    return there && this.isOverDisk(there) ? this.#open(queue, wanted, there, constants.O_RDONLY) : undefined;
  }

  /** The same of a device that goes with its last user: it stays for this one, too. */
  async openGoing(queue: DiskQueue, wanted: MappedName): Promise<Descriptor | undefined> {
    const findGoing = () => {
      const there = this.#mapper.find(wanted.name);
      return there?.uuid === wanted.uuid && there.isGoing && this.isOverDisk(there) ? there.device : undefined;
    };
    const device = findGoing();
    if (device === undefined) return undefined;
    return openStill(queue, { device, devicePath: mappedPath(device) }, async () => findGoing());
  }

  async #open(queue: DiskQueue, wanted: MappedName, { device }: MappedState, flags: number): Promise<MappedNode> {
    const devicePath = mappedPath(device);
    const numberNow = async () => this.find(wanted)?.device;
    const descriptor = await openStill(queue, { device, devicePath }, numberNow, flags);
    if (descriptor !== undefined) return { descriptor, device, devicePath };
    throw new FailedPrecondition(`${devicePath} is not the device ${wanted.name} any more; try again.`);
  }

  /** Removes the device unless it is open. @returns whether it is gone */
  async remove(queue: DiskQueue, wanted: MappedName): Promise<boolean> {
    const isThere = () => this.#mapper.find(wanted.name)?.uuid === wanted.uuid;
    if (isThere()) await this.#mapper.removeUnused(queue, wanted.name);
    return !isThere();
  }

  /** Removes it, or lets it go with its last user: a program that only looks, e.g. udev, must not keep it. */
  async letGo(queue: DiskQueue, wanted: MappedName): Promise<void> {
    if (this.find(wanted) !== undefined) await this.#mapper.removeWhenUnused(queue, wanted.name);
  }

  async #ensure(queue: DiskQueue, wanted: MappedName, part: Extent): Promise<MappedState> {
    await this.#waitUntilGone(wanted);
    const before = this.find(wanted);
    if (before !== undefined && this.isOverDisk(before)) return before;
    // The device of a disk that was pulled, or one that was never finished.
    if (before !== undefined && !(await this.remove(queue, wanted))) throw this.#overAnother(wanted, before);
    await requireStill(queue, this.#found, undefined);
    await this.#refuseOthers(queue);
    await step('attach/device', () => this.#make(queue, wanted, part));
    const made = this.find(wanted);
    if (made !== undefined && this.isOverDisk(made)) return made;
    throw new FailedPrecondition(`pool ${this.poolName}: the device ${wanted.name} is gone again; try again.`);
  }

  /** Device-mapper lets devices of different owners share a disk: multipath's, or those of another driver. */
  async #refuseOthers(queue: DiskQueue): Promise<void> {
    const { device, path } = this.#found;
    const over = await mappedOver(queue, device);
    const other = over.find(({ uuid }) => !uuid.startsWith(mappedUuidPrefix(this.poolId)));
    if (other === undefined) return;
    throw new FailedPrecondition(
      `pool ${this.poolName}: ${other.devicePath} (${other.name}) is made of ${path}, too, and is not this pool's (see lsblk). End that first.`,
    );
  }

  async #make(queue: DiskQueue, wanted: MappedName, part: Extent): Promise<void> {
    await this.#createWithRetries(queue, wanted, part);
    try {
      // Until it is part of a device, its number could come to mean another disk.
      await requireStill(queue, this.#found, undefined);
    } catch (error) {
      await this.#mapper.removeUnused(queue, wanted.name);
      throw error;
    }
  }

  async #createWithRetries(queue: DiskQueue, wanted: MappedName, part: Extent): Promise<void> {
    const { device: over, path } = this.#found;
    for (const pauseMs of [...busyPausesMs, undefined]) {
      try {
        await this.#mapper.createLinear(queue, { ...wanted, ...part, over });
        return;
      } catch (error) {
        if (!isErrno(error, 'EBUSY')) throw error;
      }
      if (pauseMs !== undefined) await delay(pauseMs);
    }
    throw new FailedPrecondition(
      `pool ${this.poolName}: ${path} is in use by something else than Holdfast (see lsblk), or a device ${wanted.name} is there that is not Holdfast's.`,
    );
  }

  async #waitUntilGone({ name }: MappedName): Promise<void> {
    for (const pauseMs of goingPausesMs) {
      if (this.#mapper.find(name)?.isGoing !== true) return;
      await delay(pauseMs);
    }
    throw new FailedPrecondition(
      `pool ${this.poolName}: the device ${name} is being removed, but a process still has it open. End that process and try again.`,
    );
  }

  #overAnother({ name }: MappedName, { device }: MappedState): FailedPrecondition {
    const [other] = mappedDevice(device)?.backing ?? [];
    const disk = other === undefined ? 'a disk that is gone' : `disk ${other.major}:${other.minor}`;
    return new FailedPrecondition(
      `pool ${this.poolName}: the device ${name} is in use, and lies on ${disk}, not on ${this.#found.path}. Was that disk pulled, or is one a copy of the other? Stop the pod that uses it.`,
    );
  }
}
