import { stat } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { deviceNumber, sameDevice } from '../../../kernel/block/device.ts';
import {
  connectNvme,
  disconnectNvme,
  type NvmeController,
  type NvmeNamespace,
  type NvmeSubsystem,
  nvmeSubsystem,
  rescanNvme,
} from '../../../kernel/block/nvme.ts';
import { type Descriptor, openReadOnly } from '../../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { isErrno } from '../../../kernel/call/errno.ts';
import { findHolders } from '../../../kernel/process/holders.ts';
import { Aborted, FailedPrecondition, NotFound, OutOfRange, Unavailable } from '../../../volume/errors.ts';
import type { Secrets } from '../../../volume/secrets.ts';
import { step } from '../../../volume/step.ts';
import type { NodeSide, NodeSideContext, VolumeOnNode } from '../../node-side.ts';
import type { Attached, Attachment, Condition } from '../../pool.ts';
import { type NvmeContext, type Portal, parseNvmeContext } from './context.ts';
import { type NvmeHost, nvmeHost } from './host.ts';
import { controllersOf, namespacesOf } from './namespaces.ts';
import { reachPortal } from './reach.ts';

/** A controller shows its namespaces a moment after it is connected. */
const namespacePausesMs: readonly number[] = [
  ...Array.from({ length: 20 }, () => 50),
  ...Array.from({ length: 18 }, () => 500),
];

/** Nothing of a subsystem is disconnected while something of it is being connected, by any side. */
const turns = new Map<string, Promise<void>>();

/** In this state of a controller nothing more will come of it. */
const endedStates: readonly string[] = ['deleting', 'deleting (no IO)', 'dead', 'gone'];

export async function openNvmeSide({ dataDirectory, queue, server }: NodeSideContext): Promise<NodeSide> {
  return new NvmeSide(server, queue, await nvmeHost(queue, dataDirectory));
}

/** One subsystem, connected once for all volumes in it. */
class NvmeSide implements NodeSide {
  readonly name: string;
  readonly #nqn: string;
  readonly #queue: DiskQueue;
  readonly #host: NvmeHost;

  constructor(nqn: string, queue: DiskQueue, host: NvmeHost) {
    this.name = `nvme-tcp ${nqn}`;
    this.#nqn = nqn;
    this.#queue = queue;
    this.#host = host;
  }

  attach(volume: VolumeOnNode, { secrets }: { readonly secrets?: Secrets | undefined }): Promise<Attachment> {
    return this.#inTurn(async () => {
      const context = parseNvmeContext(volume.context);
      await this.#connect(volume, context, secrets);
      const found = await this.#find(volume, context);
      const descriptor = await this.#openStill(volume, context, found);
      const { device, devicePath } = found;
      return {
        ...{ kind: 'device', devicePath, device, readonly: false, descriptor },
        release: () => descriptor[Symbol.asyncDispose](),
      };
    });
  }

  /** Through a connection of this driver: what others have connected is theirs. */
  async attached({ context }: VolumeOnNode): Promise<Attached[]> {
    const parsed = parseNvmeContext(context);
    const subsystem = this.#look();
    if (this.#ownIn(subsystem, parsed).length === 0) return [];
    return namespacesOf(subsystem, parsed).map(({ device, devicePath }) => {
      return { kind: 'device', device, devicePath, readonly: false };
    });
  }

  /** The subsystem stays connected while another of its namespaces is used. */
  detach({ context }: VolumeOnNode): Promise<void> {
    return this.#inTurn(async () => {
      const subsystem = this.#look();
      const ours = this.#ownIn(subsystem, parseNvmeContext(context));
      if (ours.length === 0) return;
      const { holders } = await findHolders({ devices: subsystem.namespaces }, 'all');
      if (holders.length > 0) return;
      for (const controller of ours) await step('nvme/disconnect', () => disconnectNvme(this.#queue, controller));
    });
  }

  /** A connection that showed no namespace of its volume is ended, too. */
  async close(last: VolumeOnNode): Promise<void> {
    await this.detach(last);
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

  #ownIn(subsystem: NvmeSubsystem, { host = this.#host }: Pick<NvmeContext, 'host'>): NvmeController[] {
    return controllersOf(subsystem, host.nqn);
  }

  #look(): NvmeSubsystem {
    return nvmeSubsystem(this.#nqn);
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const turn = (turns.get(this.#nqn) ?? Promise.resolve()).then(work);
    const ended = turn.then(
      () => undefined,
      () => undefined,
    );
    turns.set(this.#nqn, ended);
    return turn;
  }

  /** @throws Unavailable if no portal can be reached, FailedPrecondition */
  async #connect(volume: VolumeOnNode, context: NvmeContext, secrets: Secrets | undefined): Promise<void> {
    const { host = this.#host, portals } = context;
    const failures: string[] = [];
    for (const portal of portals) {
      // A connection of the host itself may end at any time.
      const isThere = this.#look().controllers.some(
        (each) => isAt(each, portal) && (each.hostNqn === undefined || each.hostNqn === host.nqn),
      );
      if (isThere) continue;
      const failure = await this.#connectTo(volume, context, portal, secrets);
      if (failure !== undefined) failures.push(failure);
    }
    if (failures.length < portals.length) return;
    throw new Unavailable(`volume ${volume.handle}: ${failures.join('; ')}.`);
  }

  /** @returns why it could not be connected */
  async #connectTo(
    { handle }: VolumeOnNode,
    { host = this.#host, nqn, options }: NvmeContext,
    { address, port }: Portal,
    secrets: Secrets | undefined,
  ): Promise<string | undefined> {
    const unreachable = await reachPortal({ address, port });
    if (unreachable !== undefined) return unreachable;
    const connection = {
      ...{ nqn, transport: 'tcp', traddr: address, trsvcid: port, hostnqn: host.nqn, hostid: host.id },
      ...options,
      ...keysIn(secrets),
    };
    try {
      await step('nvme/connect', () => connectNvme(this.#queue, connection));
      return undefined;
    } catch (error) {
      if (isErrno(error, 'EALREADY')) return undefined;
      if (isErrno(error, 'ENOENT', 'ENODEV', 'ENXIO')) {
        throw new FailedPrecondition(
          `volume ${handle}: there is no /dev/nvme-fabrics: load the module (modprobe nvme-tcp); in a container, mount the host's /dev.`,
        );
      }
      const code = error instanceof Error && 'code' in error ? String(error.code) : 'an error';
      return `${address}:${port} refuses a connection (${code}): check the nqn, the hosts that it allows (nvme-host.json) and the key; see dmesg`;
    }
  }

  /** @throws NotFound, FailedPrecondition if two namespaces have that identity */
  async #find({ handle }: VolumeOnNode, context: NvmeContext): Promise<NvmeNamespace> {
    const { digits, kind } = context.identity;
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
      `volume ${handle}: ${this.#nqn} has no namespace with ${kind} ${digits}, only ${others.join(', ') || 'none'}.`,
    );
  }

  /** Names and numbers are given to other namespaces: the open device is compared with the volume's identity. */
  async #openStill({ handle }: VolumeOnNode, context: NvmeContext, found: NvmeNamespace): Promise<Descriptor> {
    const descriptor = await openReadOnly(this.#queue, found.devicePath);
    try {
      const { rdev } = await this.#queue.run(() => descriptor.during((path) => stat(path, { bigint: true })));
      const now = namespacesOf(this.#look(), context);
      if (now.some(({ device }) => sameDevice(device, deviceNumber(rdev)))) return descriptor;
      throw new Aborted(`volume ${handle}: ${found.devicePath} is another device now; try again.`);
    } catch (error) {
      await descriptor[Symbol.asyncDispose]();
      throw error;
    }
  }
}

function isAt({ address, state, transport }: NvmeController, portal: Portal): boolean {
  return (
    transport === 'tcp' &&
    address.get('traddr') === portal.address &&
    address.get('trsvcid') === portal.port &&
    !endedStates.includes(state)
  );
}

/** In-band authentication: what the target knows this host by, and what the host knows the target by. */
function keysIn(secrets: Secrets | undefined): Record<string, string> {
  const host = secrets?.get('dhchapSecret');
  const target = secrets?.get('dhchapCtrlSecret');
  for (const key of [host, target]) {
    if (key !== undefined && !/^DHHC-1:[0-9]{2}:[A-Za-z0-9+/=]+:$/.test(key)) {
      throw new FailedPrecondition(
        'dhchapSecret or dhchapCtrlSecret is no key of the form DHHC-1:00:…: (nvme gen-dhchap-key).',
      );
    }
  }
  return { ...(host && { dhchap_secret: host }), ...(target && { dhchap_ctrl_secret: target }) };
}
