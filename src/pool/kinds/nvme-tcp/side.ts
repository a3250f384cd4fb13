import { constants } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { sameDevice } from '../../../kernel/block/device.ts';
import { type NvmeNamespace, type NvmeSubsystem, nvmeSubsystem, rescanNvme } from '../../../kernel/block/nvme.ts';
import type { Descriptor } from '../../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { Aborted, FailedPrecondition, NotFound, OutOfRange } from '../../../volume/errors.ts';
import { locateDevice, openDisk } from '../../location/found-disk.ts';
import type { NodeSide, NodeSideContext, UnmountPlace, VolumeOnNode } from '../../node-side.ts';
import type { Attached, Attachment, AttachOptions, Condition } from '../../pool.ts';
import { connectAll } from './connect.ts';
import { type NvmeContext, parseNvmeContext } from './context.ts';
import { type NvmeHost, nvmeHost } from './host.ts';
import { leave } from './leave.ts';
import { namespacesOf } from './namespaces.ts';
import { SubsystemState } from './subsystem-state.ts';
import { unmountVolume } from './unmount.ts';

/** A controller shows its namespaces a moment after it is connected. */
const namespacePausesMs: readonly number[] = [
  ...Array.from({ length: 20 }, () => 50),
  ...Array.from({ length: 18 }, () => 500),
];

export async function openNvmeSide(context: NodeSideContext): Promise<NodeSide> {
  const { dataDirectory, queue, server } = context;
  const host = await nvmeHost(queue, dataDirectory);
  return new NvmeSide(context, host, await SubsystemState.open(queue, dataDirectory, server));
}

/** One subsystem, connected once for all volumes in it. */
class NvmeSide implements NodeSide {
  readonly name: string;
  readonly #context: NodeSideContext;
  readonly #queue: DiskQueue;
  /** For what must go on while calls wait for the target. */
  readonly #beside: DiskQueue;
  readonly #host: NvmeHost;
  readonly #state: SubsystemState;

  constructor(context: NodeSideContext, host: NvmeHost, state: SubsystemState) {
    this.name = `nvme-tcp ${context.server}`;
    this.#context = context;
    this.#queue = context.queue;
    this.#beside = context.queue.beside('disconnect', 1);
    this.#host = host;
    this.#state = state;
  }

  attach(volume: VolumeOnNode, { secrets }: AttachOptions): Promise<Attachment> {
    return this.#state.turns.run(async () => {
      const { notes } = this.#state;
      const isNew = !notes.note.users.includes(volume.handle);
      if (isNew) await notes.write(this.#beside, { ...notes.note, users: [...notes.note.users, volume.handle] });
      try {
        const context = parseNvmeContext(volume.context);
        const { host = this.#host } = context;
        await connectAll(volume, context, { host, queue: this.#queue, secrets, state: this.#state });
        const found = await this.#find(volume, context);
        const descriptor = await this.#openStill(volume, context, found);
        const { device, devicePath } = found;
        return {
          ...{ kind: 'device', devicePath, device, readonly: false, descriptor },
          release: () => descriptor[Symbol.asyncDispose](),
        };
      } catch (error) {
        if (isNew) await leave(this.#beside, this.#state, volume).catch(() => undefined);
        throw error;
      }
    });
  }

  /** A namespace that is there for another volume, or through a connection of another program, is not attached for this one. */
  async attached({ context, handle }: VolumeOnNode): Promise<Attached[]> {
    if (!this.#state.notes.note.users.includes(handle)) return [];
    return namespacesOf(this.#look(), parseNvmeContext(context)).map(({ device, devicePath }) => {
      return { kind: 'device', device, devicePath, readonly: false };
    });
  }

  async detach(volume: VolumeOnNode): Promise<void> {
    await this.forget(volume);
  }

  async forget(volume: VolumeOnNode): Promise<void> {
    await this.#state.turns.run(() => leave(this.#beside, this.#state, volume));
  }

  async unmount(volume: VolumeOnNode, place: UnmountPlace): Promise<void> {
    const { log, queue, server: nqn } = this.#context;
    await unmountVolume({ nqn, queue, beside: this.#beside, state: this.#state, log }, volume, place);
  }

  async grow(volume: VolumeOnNode, sizeBytes: bigint): Promise<bigint> {
    const context = parseNvmeContext(volume.context);
    const sizeNow = () => namespacesOf(this.#look(), context)[0]?.sizeBytes ?? 0n;
    for (const controller of this.#look().controllers) await rescanNvme(this.#queue, controller);
    for (const pauseMs of namespacePausesMs.slice(0, 25)) {
      if (sizeNow() >= sizeBytes) return sizeNow();
      await delay(pauseMs);
    }
    throw new OutOfRange(
      `volume ${volume.handle}: its namespace has ${sizeNow()} bytes, not ${sizeBytes}: grow it on the target first.`,
    );
  }

  async condition(): Promise<Condition> {
    const { controllers } = this.#look();
    const live = controllers.filter(({ state }) => state === 'live').length;
    if (live === 0) return { abnormal: true, message: 'No connection to the target of this volume works now.' };
    if (live === controllers.length) return { abnormal: false, message: 'The target is connected.' };
    return {
      abnormal: true,
      message: `${controllers.length - live} of ${controllers.length} paths to the target are down.`,
    };
  }

  #look(): NvmeSubsystem {
    return nvmeSubsystem(this.#context.server);
  }

  /** @throws NotFound, FailedPrecondition if two namespaces have that identity */
  async #find({ handle }: VolumeOnNode, context: NvmeContext): Promise<NvmeNamespace> {
    const { digits, kind } = context.identity;
    // The connection may be older than the namespace.
    if (namespacesOf(this.#look(), context).length === 0) {
      for (const controller of this.#look().controllers) await rescanNvme(this.#queue, controller);
    }
    for (const pauseMs of [...namespacePausesMs, undefined]) {
      const [found, other] = namespacesOf(this.#look(), context);
      if (found !== undefined && other !== undefined) {
        throw new FailedPrecondition(
          `volume ${handle}: ${found.name} and ${other.name} both have ${kind} ${digits}. Turn native multipath on, or correct the target.`,
        );
      }
      if (found !== undefined) return found;
      if (pauseMs !== undefined) await delay(pauseMs);
    }
    const others = this.#look().namespaces.map((each) => each[kind] ?? `${each.name} without one`);
    throw new NotFound(
      `volume ${handle}: ${this.#context.server} has no namespace with ${kind} ${digits}, only ${others.join(', ') || 'none'}.`,
    );
  }

  /** Names and numbers are given to other namespaces: the open device is compared with the one that is meant. */
  async #openStill({ handle }: VolumeOnNode, context: NvmeContext, found: NvmeNamespace): Promise<Descriptor> {
    const disk = await locateDevice(this.#queue, found.devicePath, found.device);
    const { descriptor } = await openDisk(this.#queue, disk, constants.O_RDONLY);
    if (namespacesOf(this.#look(), context).some(({ device }) => sameDevice(device, found.device))) return descriptor;
    await descriptor[Symbol.asyncDispose]();
    throw new Aborted(`volume ${handle}: ${found.devicePath} is another device now; try again.`);
  }
}
