import { constants } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import type { Descriptor } from '../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { sameDevice } from '../../kernel/device.ts';
import { Aborted, OutOfRange } from '../../volume/errors.ts';
import { abnormal } from '../condition.ts';
import { locateDevice, openDisk } from '../location/disk/found-disk.ts';
import type { NodeSide, NodeSideContext, UnmountPlace, VolumeOnNode } from '../node-side.ts';
import type { Attached, Attachment, AttachOptions, Condition } from '../pool.ts';
import type { ConnectionNote } from './connection-notes.ts';
import { FilesystemInUse, leave } from './leave.ts';
import type { NetworkDevice, Target } from './target.ts';
import type { TargetState } from './target-state.ts';
import { endUnmount, type UnmountOptions, unmountVolume } from './unmount.ts';

/** A connection shows its devices a moment after it is made. */
const devicePausesMs: readonly number[] = [
  ...Array.from({ length: 20 }, () => 50),
  ...Array.from({ length: 18 }, () => 500),
];

/** The volumes on one target: connected once for all of them, noted before, and let go with the last. */
export class NetworkDiskSide<C> implements NodeSide {
  readonly name: string;
  readonly #context: NodeSideContext;
  readonly #queue: DiskQueue;
  /** For what must go on while calls wait for the target. */
  readonly #beside: DiskQueue;
  /** For looks that must not wait for those. */
  readonly #looks: DiskQueue;
  readonly #target: Target<C>;
  readonly #state: TargetState<C>;

  constructor(kind: string, context: NodeSideContext, target: Target<C>, state: TargetState<C>) {
    this.name = `${kind} ${context.server}`;
    this.#context = context;
    this.#queue = context.queue;
    this.#beside = context.queue.beside('disconnect', 1);
    this.#looks = context.queue.beside('look', 1);
    this.#target = target;
    this.#state = state;
  }

  attach(volume: VolumeOnNode, { secrets }: AttachOptions): Promise<Attachment> {
    return this.#state.turns.run(async () => {
      const { notes } = this.#state;
      const isNew = !notes.note.users.includes(volume.handle);
      if (isNew) await notes.write(this.#beside, { ...notes.note, users: [...notes.note.users, volume.handle] });
      try {
        await this.#target.connect(volume, { queue: this.#queue, secrets, state: this.#state });
        const found = await this.#find(volume);
        const descriptor = await this.#openStill(volume, found);
        const { device, devicePath } = found;
        return {
          ...{ kind: 'device', devicePath, device, readonly: false, descriptor },
          release: () => descriptor[Symbol.asyncDispose](),
        };
      } catch (error) {
        if (isNew) await leave(this.#beside, this.#target, this.#state, volume).catch(() => undefined);
        throw error;
      }
    });
  }

  /** A device that is there for another volume, or through a connection of another program, is not attached for this one. */
  async attached(volume: VolumeOnNode): Promise<Attached[]> {
    if (!this.#note.users.includes(volume.handle)) return [];
    return this.#devicesOf(volume).map(({ device, devicePath }) => {
      return { kind: 'device', device, devicePath, readonly: false };
    });
  }

  async detach(volume: VolumeOnNode): Promise<void> {
    await this.forget(volume);
  }

  async forget(volume: VolumeOnNode): Promise<void> {
    const forget = () => this.#state.turns.run(() => leave(this.#beside, this.#target, this.#state, volume));
    try {
      await forget();
    } catch (error) {
      if (!(error instanceof FilesystemInUse)) throw error;
      await endUnmount(this.#unmountOptions, volume);
      await forget();
    }
  }

  async unmount(volume: VolumeOnNode, place: UnmountPlace): Promise<void> {
    await unmountVolume(this.#unmountOptions, volume, place);
  }

  get #unmountOptions(): UnmountOptions<C> {
    const { log, queue } = this.#context;
    const [beside, looks, state, target] = [this.#beside, this.#looks, this.#state, this.#target];
    return { target, queue, beside, looks, state, log };
  }

  async grow(volume: VolumeOnNode, sizeBytes: bigint): Promise<bigint> {
    const sizeNow = () => this.#devicesOf(volume)[0]?.sizeBytes ?? 0n;
    await this.#target.rescan(this.#queue, volume, this.#note);
    for (const pauseMs of devicePausesMs.slice(0, 25)) {
      if (sizeNow() >= sizeBytes) return sizeNow();
      await delay(pauseMs);
    }
    throw new OutOfRange(
      `volume ${volume.handle}: its ${this.#target.noun} has ${sizeNow()} bytes, not ${sizeBytes}: grow it on the target first.`,
    );
  }

  async isAnswering(): Promise<boolean> {
    return this.#target.connections(this.#note).some(({ isLive }) => isLive);
  }

  async condition(volume: VolumeOnNode): Promise<Condition> {
    const connections = this.#target.connections(this.#note);
    if (!connections.some(({ isLive }) => isLive)) {
      return abnormal('No connection to the target of this volume works now.');
    }
    if (this.#devicesOf(volume).length === 0) return abnormal('This node has no device of the volume any more.');
    const paths = await this.#target.pathsOf?.(this.#queue, volume, this.#note);
    const wanted = paths ?? connections;
    const down = wanted.filter(({ isLive }) => !isLive).map(({ name }) => name);
    const lost =
      down.length === 0 ? [] : [`${down.length} of ${wanted.length} paths to the target are down: ${down.join(', ')}.`];
    const fault = (await this.#target.faultOf?.(this.#queue, paths)) ?? [];
    const faults = lost.concat(fault);
    return faults.length === 0 ? { abnormal: false, message: 'The target is connected.' } : abnormal(faults.join(' '));
  }

  get #note(): ConnectionNote<C> {
    return this.#state.notes.note;
  }

  #devicesOf(volume: VolumeOnNode): readonly NetworkDevice[] {
    return this.#target.devicesOf(volume, this.#note);
  }

  /** @throws NotFound, FailedPrecondition if two devices are the volume */
  async #find(volume: VolumeOnNode): Promise<NetworkDevice> {
    // The connection may be older than the device.
    if (this.#devicesOf(volume).length === 0) await this.#target.rescan(this.#queue, volume, this.#note);
    for (const pauseMs of [...devicePausesMs, undefined]) {
      const [found, other] = this.#devicesOf(volume);
      if (found !== undefined && other !== undefined) throw this.#target.isTwice(volume, found, other);
      if (found !== undefined) return found;
      if (pauseMs !== undefined) await delay(pauseMs);
    }
    throw this.#target.notThere(volume);
  }

  /** Names and numbers are given to other devices: the open device is compared with the one that is meant. */
  async #openStill(volume: VolumeOnNode, found: NetworkDevice): Promise<Descriptor> {
    const disk = await locateDevice(this.#queue, found.devicePath, found.device);
    const { descriptor } = await openDisk(this.#queue, disk, constants.O_RDONLY);
    try {
      await this.#identify(volume, found);
      await this.#state.uses.begin(this.#queue, volume.handle, { ...found, noun: this.#target.noun });
      if (this.#devicesOf(volume).some(({ device }) => sameDevice(device, found.device))) return descriptor;
      throw new Aborted(`volume ${volume.handle}: ${found.devicePath} is another device now; try again.`);
    } catch (error) {
      await descriptor[Symbol.asyncDispose]();
      throw error;
    }
  }

  async #identify(volume: VolumeOnNode, found: NetworkDevice): Promise<void> {
    const { notes } = this.#state;
    const identity = await this.#target.identify?.(this.#queue, volume, found, this.#note);
    if (identity === undefined || this.#note.identities?.[volume.handle] === identity) return;
    const identities = { ...this.#note.identities, [volume.handle]: identity };
    await notes.write(this.#beside, { ...this.#note, identities });
  }
}
