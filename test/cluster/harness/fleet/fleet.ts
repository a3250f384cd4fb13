import { mkdirSync, rmSync } from 'node:fs';
import { installPrograms } from '../../../../deploy/image/program.ts';
import { ApiServer } from '../api-server.ts';
import { Controllers } from '../controllers.ts';
import { ClusterDirectory, kubeletDirectory } from '../directory.ts';
import { makeDriverImage, makeImages } from '../images.ts';
import type { Kubectl } from '../kubectl.ts';
import { buildPrograms, clusterPrograms } from '../programs.ts';
import { applySnapshotCrds } from '../snapshot-crds.ts';
import { FleetDriver } from './fleet-driver.ts';
import { NameServer } from './name-server.ts';
import { fleetNetwork, makeNetwork } from './network.ts';
import { FleetNode } from './node.ts';

const nodeNames = ['node-a', 'node-b', 'node-c'] as const;
export type NodeName = (typeof nodeNames)[number];

interface Parts {
  readonly programs: string;
  readonly directory: ClusterDirectory;
  readonly server: ApiServer;
  readonly names: NameServer;
  readonly nodes: readonly FleetNode[];
  readonly controllers: Controllers;
}

export interface FleetOptions {
  /** Where drivers keep their volumes, if not in the cluster's directory; it is there already, and stays empty. */
  readonly dataDirectory?: string;
  /** Other directories that each node has for itself, and whose mounts its containers see. They are there already. */
  readonly shared?: readonly string[];
  /** Names that pods can ask for, and their addresses. */
  readonly names?: Readonly<Record<string, string>>;
}

/** A whole Kubernetes of three nodes, on this machine. */
export class Fleet implements AsyncDisposable {
  readonly driver: FleetDriver;
  readonly nodes: readonly FleetNode[];
  readonly programs: string;
  /** Where drivers keep their volumes, as each node has it. */
  readonly dataDirectory: string;
  readonly #parts: Parts;

  private constructor(parts: Parts, dataDirectory: string) {
    this.#parts = parts;
    this.dataDirectory = dataDirectory;
    this.nodes = parts.nodes;
    this.programs = parts.programs;
    this.driver = new FleetDriver(this.kubectl, parts.directory, dataDirectory, this.nodes);
  }

  /** Builds what is missing, starts everything, and resolves when the nodes are ready for pods. */
  static async start({ dataDirectory: ownData, names: others = {}, shared = [] }: FleetOptions = {}): Promise<Fleet> {
    if (process.getuid?.() !== 0) throw new Error('root is needed: this starts containers and mounts filesystems');
    installPrograms({ runc: 'runc', busybox: 'busybox-static', setpriv: 'util-linux', ip: 'iproute2' });
    const programs = await buildPrograms(clusterPrograms);
    const driverImage = await makeDriverImage();
    await using starting = new AsyncDisposableStack();
    const directory = starting.use(await ClusterDirectory.make());
    makeNetwork(directory);
    const { apiServer: address, nameServer, serviceRange } = fleetNetwork;
    const plan = { programs, address, port: 443, serviceRange, hasControllers: true, nodes: nodeNames };
    const server = starting.use(await ApiServer.start(directory, plan));
    const names = starting.use(await NameServer.start(server.kubectl, nameServer, others));
    const imageDirectory = directory.makeDirectory('images');
    const archives = [...(await makeImages(programs, imageDirectory)), driverImage];
    mkdirSync(kubeletDirectory, { recursive: true });
    const dataDirectory = ownData ?? directory.makeDirectory('holdfast');
    const nodes: FleetNode[] = [];
    for (const [at, name] of nodeNames.entries()) {
      const node = starting.use(
        await FleetNode.start({ programs, directory, server, name, index: at + 1, dataDirectory, shared }),
      );
      for (const archive of archives) await node.runtime.importImage(archive);
      nodes.push(node);
    }
    rmSync(imageDirectory, { recursive: true });
    await applySnapshotCrds(server.kubectl);
    const options = { hasDistributedSnapshots: false };
    const controllers = starting.use(await Controllers.start(programs, directory, server, options));
    const fleet = new Fleet({ programs, directory, server, names, nodes, controllers }, dataDirectory);
    for (const name of nodeNames) {
      await fleet.kubectl.run(['wait', '--for=create', '--timeout=60s', `node/${name}`]);
      await fleet.kubectl.run(['wait', '--for=condition=Ready', '--timeout=60s', `node/${name}`]);
    }
    starting.move();
    return fleet;
  }

  get kubectl(): Kubectl {
    return this.#parts.server.kubectl;
  }

  /** Turns features of the API server on for a test, which starts it twice. */
  async withFeatures(featureGates: readonly string[], body: () => Promise<void>): Promise<void> {
    const { server } = this.#parts;
    await server.turnOn(featureGates);
    try {
      await body();
    } finally {
      await server.turnOn([]);
    }
  }

  /** A directory of the cluster, which goes with it. */
  makeDirectory(...parts: string[]): string {
    return this.#parts.directory.makeDirectory(...parts);
  }

  /** On each node. */
  async importImage(archive: string): Promise<void> {
    for (const { runtime } of this.nodes) await runtime.importImage(archive);
  }

  /** With which an administrator talks to it. */
  get kubeconfig(): string {
    return this.#parts.server.kubeconfig('admin');
  }

  node(name: string): FleetNode {
    const found = this.nodes.find((node) => node.name === name);
    if (found === undefined) throw new Error(`there is no node ${name}`);
    return found;
  }

  /** The names of the nodes in whose pools a volume is. */
  nodesWith(handle: string): string[] {
    return this.nodes.filter((node) => node.volumes().includes(handle)).map(({ name }) => name);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const { controllers, directory, names, nodes, server } = this.#parts;
    await controllers[Symbol.asyncDispose]();
    await Promise.all(nodes.map((node) => node[Symbol.asyncDispose]()));
    await names[Symbol.asyncDispose]();
    await server[Symbol.asyncDispose]();
    await directory[Symbol.asyncDispose]();
  }
}
