import { mkdirSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { installPrograms } from '../../../../deploy/image/program.ts';
import { SeededRandom } from '../../../crash/seeded-random.ts';
import { Scratch } from '../../../support/scratch.ts';
import { VolatileDisk } from '../../../vm/disk/volatile-disk.ts';
import { startUdev } from '../../../vm/machine/udev.ts';
import { bootVirtualMachine, type VirtualMachine } from '../../../vm/machine/virtual-machine.ts';
import { ApiServer } from '../api-server.ts';
import { runToEnd } from '../command.ts';
import { ContainerRuntime } from '../container-runtime.ts';
import { Controllers } from '../controllers.ts';
import {
  becomeNodeCommands,
  kubeletPort,
  networkCommands,
  nodeDirectory,
  startNode,
  writeKubeconfig,
} from '../devices/machine-node.ts';
import { ClusterDirectory, type NodePlace } from '../directory.ts';
import { makeDriverImage, makeImages, networkSidecars } from '../images.ts';
import type { Kubectl } from '../kubectl.ts';
import { buildPrograms, clusterPrograms, networkPrograms } from '../programs.ts';
import { relay } from '../relay.ts';
import { applySnapshotCrds } from '../snapshot-crds.ts';
import { waitFor } from '../waiting.ts';
import { NetworkDrivers } from './network-drivers.ts';

/** As in a cluster of one node: see cluster.ts. */
const address = '127.96.0.1';
const serviceRange = '127.96.0.0/16';
const port = 443;
/** The names of the nodes: the API server asks the kubelets under them, and the port of each leads into a virtual machine. */
export const nodeNames = ['127.0.0.1', '127.0.0.2'] as const;
export type NodeName = (typeof nodeNames)[number];
/** The storage, as nodes reach it: ports of this machine lead into the machine with the servers. */
export const storageAddress = '10.0.2.2';
const storagePorts = [2049, 3260, 4420] as const;
/** Another address of that machine: packets to it are lost while it has not the address. */
const second = { address: '10.0.2.16', ports: [3261, 4422] } as const;
/** Only failures take so long. */
const patienceMs = 1_800_000;
const gibibyte = 2 ** 30;

interface ClusterPlan {
  readonly drivers: NetworkDrivers;
  readonly server: ApiServer;
  readonly storage: VirtualMachine;
  readonly programs: string;
  /** The disk of a node. */
  readonly prepared: string;
  /** The API server, as nodes reach it. */
  readonly outsidePort: number;
  readonly started: AsyncDisposableStack;
}

/**
 * A Kubernetes of one node, or two, and a server of NFS, NVMe/TCP and iSCSI, each a virtual machine: this machine's kernel may have none of it. The
 * control plane runs on this machine.
 */
export class NetworkCluster implements AsyncDisposable {
  /** Those that run. */
  readonly nodes = new Map<NodeName, VirtualMachine>();
  readonly drivers: NetworkDrivers;
  readonly #plan: ClusterPlan;

  private constructor(plan: ClusterPlan) {
    this.drivers = plan.drivers;
    this.#plan = plan;
  }

  get kubectl(): Kubectl {
    return this.#plan.server.kubectl;
  }

  /** The environment in which a person types commands. */
  get shellEnvironment(): Readonly<Record<string, string>> {
    return { PATH: `${this.#plan.programs}:${process.env['PATH']}`, KUBECONFIG: this.#plan.server.kubeconfig('admin') };
  }

  /** Runs a command of the shell on the machine with the servers. */
  onStorage(command: string): Promise<string> {
    return this.#plan.storage.run(command);
  }

  node(name: NodeName): VirtualMachine {
    const vm = this.nodes.get(name);
    if (vm === undefined) throw new Error(`there is no node ${name}`);
    return vm;
  }

  /** A node has it from then on, with the udev that it needs. */
  async startMultipathd(name: NodeName): Promise<void> {
    const vm = this.node(name);
    await startUdev(vm);
    await vm.run(`sh ${script('iscsi/target.sh')} install-multipath ${vm.multipathDirectory}`);
  }

  /** The power of a node is cut; it does not come back. */
  async killNode(name: NodeName): Promise<void> {
    const vm = this.node(name);
    this.nodes.delete(name);
    await vm.cutPower(new SeededRandom(1));
  }

  /** Resolves when it is ready for pods; nothing happens if it is there already. Each takes a processor of this machine. */
  async addNode(nodeName: NodeName): Promise<void> {
    if (this.nodes.has(nodeName)) return;
    const { outsidePort, prepared, programs, server, started } = this.#plan;
    const scratch = started.use(new Scratch('vm-of-cluster'));
    const vm = await startMachine(started, scratch, { name: nodeName, prepared });
    const kubeconfig = writeKubeconfig(scratch, server, nodeName);
    const apiServer = { address, port, outsidePort };
    const node = await startNode(vm, scratch, {
      ...{ directory: nodeDirectory, programs, kubeconfig, nodeName, apiServer },
      images: [],
    });
    const ended = node.ended.then(() => Promise.reject(new Error(`the node has ended: ${node.lastWords()}`)));
    // A test may end it.
    ended.catch(() => undefined);
    const isReady = ['wait', '--for=condition=Ready', '--timeout=5s', `node/${nodeName}`];
    await Promise.race([waitFor('the node to be ready', () => this.kubectl.run(isReady), patienceMs), ended]);
    this.nodes.set(nodeName, vm);
  }

  /** Builds what is missing, starts everything, and resolves when the first node is ready for pods. */
  static async start(): Promise<NetworkCluster> {
    if (process.getuid?.() !== 0) throw new Error('root is needed: this starts virtual machines');
    installPrograms({ runc: 'runc', busybox: 'busybox-static', setpriv: 'util-linux' });
    const programs = await buildPrograms([...clusterPrograms, ...networkPrograms]);
    await using starting = new AsyncDisposableStack();
    const directory = starting.use(await ClusterDirectory.make());
    const plan = { programs, address, port, serviceRange, hasControllers: true, nodes: nodeNames };
    const server = starting.use(await ApiServer.start(directory, plan));
    await applySnapshotCrds(server.kubectl);
    starting.use(await Controllers.start(programs, directory, server, { hasDistributedSnapshots: false }));
    const way = await relay({ host: '127.0.0.1', port: 0 }, { host: address, port });
    starting.defer(() => void way.close());
    const outsidePort = (way.address() as AddressInfo).port;
    const scratch = starting.use(new Scratch('vm-of-cluster'));
    const prepared = await prepareNode(scratch, programs);
    const storage = await startStorage(starting);
    const drivers = new NetworkDrivers(server.kubectl, directory, storageAddress);
    const cluster = new NetworkCluster({
      drivers,
      server,
      storage,
      programs,
      prepared,
      outsidePort,
      started: starting.move(),
    });
    try {
      await cluster.addNode(nodeNames[0]);
      return cluster;
    } catch (error) {
      await cluster[Symbol.asyncDispose]();
      throw error;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#plan.started[Symbol.asyncDispose]();
  }
}

const script = (name: string) => fileURLToPath(new URL(`../../../vm/${name}`, import.meta.url));
/** Scripts for the machine with the servers: their commands follow. */
export const nvmeTarget = `TARGET_ADDRESS=0.0.0.0 sh ${script('nvme/target.sh')}`;
export const iscsiTarget = `TARGET_SECOND=${second.address}:3261 TARGET_ADDRESS=0.0.0.0 sh ${script('iscsi/target.sh')}`;
/** A second way to both targets, which can be cut. */
export const secondWay = {
  make: `${iscsiTarget} second-up && TARGET_ADDRESS=${second.address} sh ${script('nvme/target.sh')} second-start`,
  cut: `${iscsiTarget} second-down`,
  heal: `${iscsiTarget} second-up`,
} as const;

/** All packets to and from the machine with the servers are lost, until it is back. */
export const allOfStorage = { cut: 'busybox ip link set eth0 down', heal: 'busybox ip link set eth0 up' } as const;

async function startStorage(stack: AsyncDisposableStack): Promise<VirtualMachine> {
  const scratch = stack.use(new Scratch('vm-of-cluster'));
  const disks = ['export', 'target'].map((name) =>
    stack.use(new VolatileDisk(scratch, { name, sizeBytes: 2 * gibibyte })),
  );
  const vm = stack.use(
    await bootVirtualMachine({ scratch, disks, memoryMiB: 768, network: { forwardedPorts: storagePorts, second } }),
  );
  await vm.run(
    [
      'modprobe virtio_net',
      'hostname storage',
      ...networkCommands,
      `sh ${script('nfs/server.sh')} ${vm.nfsDirectory} alone /dev/vda`,
      'mkfs.ext4 -q /dev/vdb && mkdir -p /target && mount /dev/vdb /target',
      `${nvmeTarget} make /target`,
      `${iscsiTarget} make`,
    ].join(' && '),
  );
  return vm;
}

/** Makes the disk of a node, with all images: a node, whose processor is a program, takes ten minutes to unpack them. @returns its file */
async function prepareNode(scratch: Scratch, programs: string): Promise<string> {
  const file = scratch.join('node.disk');
  const root = scratch.join('node');
  mkdirSync(root);
  await runToEnd('truncate', ['--size', `${8 * gibibyte}`, file]);
  await runToEnd('mkfs.ext4', ['-q', file]);
  await runToEnd('mount', ['-o', 'loop', file, root]);
  try {
    const archives = scratch.join('images');
    mkdirSync(archives);
    const place: NodePlace = {
      cgroup: 'holdfast-images',
      join: (...parts) => join(root, ...parts),
      makeDirectory: (...parts) => {
        mkdirSync(join(root, ...parts), { recursive: true });
        return join(root, ...parts);
      },
    };
    await using runtime = await ContainerRuntime.start({ programs, place });
    const images = [...(await makeImages(programs, archives, networkSidecars)), await makeDriverImage()];
    for (const archive of images) await runtime.importImage(archive);
  } finally {
    await runToEnd('umount', [root]);
  }
  return file;
}

async function startMachine(
  stack: AsyncDisposableStack,
  scratch: Scratch,
  { name, prepared }: { readonly name: NodeName; readonly prepared: string },
): Promise<VirtualMachine> {
  const path = scratch.join('system.disk');
  await runToEnd('cp', ['--sparse=always', prepared, path]);
  const network = { forwardedPorts: [kubeletPort], forwardedAddress: name };
  const vm = stack.use(await bootVirtualMachine({ scratch, memoryMiB: 3072, network, nvmePorts: 1 }));
  await vm.run('modprobe nvme');
  await vm.plug({ name: 'system', serial: 'system', path, port: 0 });
  await vm.run(
    [
      'until [ -b /dev/nvme0n1 ]; do sleep 0.2; done',
      'modprobe -a virtio_net nfsv4 nvme-tcp dm-crypt',
      // A server of NFS knows its clients by their names.
      `hostname node-${name}`,
      ...becomeNodeCommands('/dev/nvme0n1'),
      `sh ${script('iscsi/target.sh')} install ${vm.iscsiDirectory} node-${name}`,
    ].join(' && '),
  );
  return vm;
}
