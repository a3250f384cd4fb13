import { disconnectNvme, nvmeSubsystem, rescanNvme } from '../../../kernel/block/nvme.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { FailedPrecondition, type HoldfastError, NotFound } from '../../../volume/errors.ts';
import { step } from '../../../volume/step.ts';
import { NetworkDiskSide } from '../../network-disk/side.ts';
import type { ConnectOptions, NetworkDevice, Target, TargetConnection } from '../../network-disk/target.ts';
import type { NodeSide, NodeSideContext, VolumeOnNode } from '../../node-side.ts';
import { connectAll } from './connect.ts';
import { type Connection, isOurs, type SubsystemNote, subsystems } from './connections.ts';
import { parseNvmeContext } from './context.ts';
import { type NvmeHost, nvmeHost } from './host.ts';
import { namespacesOf } from './namespaces.ts';

type Named = Pick<VolumeOnNode, 'context' | 'handle'>;

export async function openNvmeSide(context: NodeSideContext): Promise<NodeSide> {
  const { dataDirectory, queue, server } = context;
  const target = new NvmeTarget(server, await nvmeHost(queue, dataDirectory));
  return new NetworkDiskSide('nvme-tcp', context, target, await subsystems.open(queue, dataDirectory, server));
}

class NvmeTarget implements Target<Connection> {
  readonly name: string;
  readonly nameKey = 'nqn';
  readonly noun = 'namespace';
  readonly lossKey = 'ctrlLossTmo';
  readonly #host: NvmeHost;

  constructor(nqn: string, host: NvmeHost) {
    this.name = nqn;
    this.#host = host;
  }

  async connect(volume: Named, options: ConnectOptions<Connection>): Promise<void> {
    const context = parseNvmeContext(volume.context);
    const { host = this.#host } = context;
    await connectAll(volume, context, { ...options, host });
  }

  async disconnect(queue: DiskQueue, note: SubsystemNote): Promise<void> {
    const ours = this.#look().controllers.filter((each) => isOurs(note, each));
    await Promise.all(ours.map((each) => step('nvme/disconnect', () => disconnectNvme(queue, each))));
  }

  connections(note: SubsystemNote): TargetConnection[] {
    return this.#look().controllers.map((each) => {
      return { name: each.name, isLive: each.state === 'live', isOurs: isOurs(note, each) };
    });
  }

  devicesOf({ context }: Named): NetworkDevice[] {
    return namespacesOf(this.#look(), parseNvmeContext(context));
  }

  /** A namespace stays as long as one live connection does. */
  devicesOfOurs(note: SubsystemNote): readonly NetworkDevice[] {
    const { controllers, namespaces } = this.#look();
    if (!controllers.some((each) => isOurs(note, each))) return [];
    return controllers.some((each) => each.state === 'live' && !isOurs(note, each)) ? [] : namespaces;
  }

  async rescan(queue: DiskQueue): Promise<void> {
    for (const controller of this.#look().controllers) await rescanNvme(queue, controller);
  }

  notThere({ context, handle }: Named): HoldfastError {
    const { digits, kind } = parseNvmeContext(context).identity;
    const others = this.#look().namespaces.map((each) => each[kind] ?? `${each.name} without one`);
    return new NotFound(
      `volume ${handle}: ${this.name} has no namespace with ${kind} ${digits}, only ${others.join(', ') || 'none'}.`,
    );
  }

  isTwice({ context, handle }: Named, one: NetworkDevice, other: NetworkDevice): HoldfastError {
    const { digits, kind } = parseNvmeContext(context).identity;
    return new FailedPrecondition(
      `volume ${handle}: ${one.name} and ${other.name} both have ${kind} ${digits}. Turn native multipath on, or correct the target.`,
    );
  }

  #look() {
    return nvmeSubsystem(this.name);
  }
}
