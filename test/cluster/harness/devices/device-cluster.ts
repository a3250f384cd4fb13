import { mkdirSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { installPrograms } from '../../../../deploy/image/program.ts';
import { Scratch } from '../../../support/scratch.ts';
import { VolatileDisk } from '../../../vm/disk/volatile-disk.ts';
import { startUdev } from '../../../vm/machine/udev.ts';
import { bootVirtualMachine, type VirtualMachine } from '../../../vm/machine/virtual-machine.ts';
import { ApiServer } from '../api-server.ts';
import { Controllers } from '../controllers.ts';
import { ClusterDirectory } from '../directory.ts';
import { Driver, type Patch } from '../driver.ts';
import { makeDriverImage, makeImages } from '../images.ts';
import type { Kubectl } from '../kubectl.ts';
import { buildPrograms, clusterPrograms } from '../programs.ts';
import { relay } from '../relay.ts';
import { applySnapshotCrds } from '../snapshot-crds.ts';
import { waitFor } from '../waiting.ts';
import { becomeNodeCommands, kubeletPort, nodeDirectory, startNode, writeKubeconfig } from './machine-node.ts';

/** As in a cluster of one node: see cluster.ts. */
const address = '127.96.0.1';
const serviceRange = '127.96.0.0/16';
const port = 443;
/** The API server asks the kubelet under this name, and its port leads into the virtual machine. */
const nodeName = '127.0.0.1';
/** Only failures take so long: alone on a machine it takes two minutes. */
const patienceMs = 1_200_000;
const gibibyte = 2 ** 30;

/** The disks of the node, by their serial numbers. */
const disks = { thick: 4, thin: 4, whole: 1, other: 1 } as const;
const byId = (serial: keyof typeof disks) => `/dev/disk/by-id/scsi-0QEMU_QEMU_HARDDISK_${serial}`;

/** As docs/lvm.md and docs/disks.md have it, with the disks of this node; all of them are blank. */
const config = `
pools:
  default: {}
  fast: { kind: lvm, devices: [${byId('thick')}] }
  thin: { kind: lvm, devices: [${byId('thin')}], thinPool: { size: 2Gi } }
  whole: { kind: disk, match: { id: '*HARDDISK_whole' }, labels: { media: hdd } }
`;

const patches: readonly Patch[] = [
  {
    target: { kind: 'ConfigMap', name: 'holdfast' },
    patch: [{ op: 'replace', path: '/data/holdfast.yaml', value: config }],
  },
  {
    target: { kind: 'DaemonSet' },
    // Its processor is a program, which shares those of this machine with others.
    patch: ['liveness', 'readiness'].map((probe) => ({
      op: 'replace',
      path: `/spec/template/spec/containers/0/${probe}Probe/timeoutSeconds`,
      value: 120,
    })),
  },
];

/**
 * A Kubernetes of one node that has what this machine may lack: device-mapper and blank disks. The node is a virtual machine, with
 * containerd and the kubelet; the control plane runs on this machine.
 */
export class DeviceCluster implements AsyncDisposable {
  readonly vm: VirtualMachine;
  readonly driver: Driver;
  readonly #server: ApiServer;
  readonly #started: AsyncDisposableStack;

  private constructor(vm: VirtualMachine, driver: Driver, server: ApiServer, started: AsyncDisposableStack) {
    this.vm = vm;
    this.driver = driver;
    this.#server = server;
    this.#started = started;
  }

  get kubectl(): Kubectl {
    return this.#server.kubectl;
  }

  /** The administrator's. */
  get kubeconfig(): string {
    return this.#server.kubeconfig('admin');
  }

  /** Builds what is missing, starts everything, and resolves when the node is ready for pods. */
  static async start(): Promise<DeviceCluster> {
    if (process.getuid?.() !== 0) throw new Error('root is needed: this starts a virtual machine');
    installPrograms({ runc: 'runc', busybox: 'busybox-static', setpriv: 'util-linux' });
    const programs = await buildPrograms(clusterPrograms);
    await using starting = new AsyncDisposableStack();
    const directory = starting.use(await ClusterDirectory.make());
    const plan = { programs, address, port, serviceRange, hasControllers: true, nodes: [nodeName] };
    const server = starting.use(await ApiServer.start(directory, plan));
    await applySnapshotCrds(server.kubectl);
    starting.use(await Controllers.start(programs, directory, server));
    const way = await relay({ host: '127.0.0.1', port: 0 }, { host: address, port });
    starting.defer(() => void way.close());
    const scratch = starting.use(new Scratch('vm-of-cluster'));
    const vm = starting.use(await startMachine(starting, scratch));
    const images = scratch.join('images');
    mkdirSync(images);
    const node = await startNode(vm, scratch, {
      directory: nodeDirectory,
      programs,
      kubeconfig: writeKubeconfig(scratch, server, nodeName),
      nodeName,
      apiServer: { address, port, outsidePort: (way.address() as AddressInfo).port },
      images: [...(await makeImages(programs, images)), await makeDriverImage()],
    });
    const ended = node.ended.then(() => Promise.reject(new Error(`the node has ended: ${node.lastWords()}`)));
    const isReady = ['wait', '--for=condition=Ready', '--timeout=5s', `node/${nodeName}`];
    await Promise.race([waitFor('the node to be ready', () => server.kubectl.run(isReady), patienceMs), ended]);
    const driver = new Driver(server.kubectl, directory, { dataDirectory: '/var/lib/holdfast', patches });
    return new DeviceCluster(vm, driver, server, starting.move());
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#started[Symbol.asyncDispose]();
  }
}

async function startMachine(stack: AsyncDisposableStack, scratch: Scratch): Promise<VirtualMachine> {
  const system = stack.use(new VolatileDisk(scratch, { name: 'system', sizeBytes: 8 * gibibyte }));
  const others = Object.entries(disks).map(([name, sizeGiB]) =>
    stack.use(new VolatileDisk(scratch, { name, sizeBytes: sizeGiB * gibibyte, bus: 'scsi' })),
  );
  const network = { forwardedPorts: [kubeletPort] };
  const vm = await bootVirtualMachine({ scratch, disks: [system, ...others], memoryMiB: 3072, network });
  await vm.run(
    [
      'modprobe -a virtio_net virtio_scsi sd_mod dm-crypt dm-thin-pool',
      'mkfs.ext4 -q /dev/vda',
      ...becomeNodeCommands('/dev/vda'),
    ].join(' && '),
  );
  await startUdev(vm);
  return vm;
}
