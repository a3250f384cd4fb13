import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { ApiServer } from '../api-server.ts';
import { ContainerRuntime } from '../container-runtime.ts';
import { type ClusterDirectory, kubeletDirectory, type NodePlace } from '../directory.ts';
import { Kubelet } from '../kubelet.ts';
import { killProcess, type ProcessView, processes } from '../processes.ts';
import { waitFor } from '../waiting.ts';
import { Namespaces } from './namespaces.ts';
import { addressesOf, fleetNetwork, Uplink } from './network.ts';

interface NodePlan {
  readonly programs: string;
  readonly directory: ClusterDirectory;
  readonly server: ApiServer;
  readonly name: string;
  /** From 1. */
  readonly index: number;
  /** Where drivers keep their volumes, on each node. */
  readonly dataDirectory: string;
  /** Other directories that it has for itself. */
  readonly shared: readonly string[];
}

/** One of several nodes: a kubelet and a containerd in namespaces of their own, on a network that they share. */
export class FleetNode implements AsyncDisposable {
  readonly name: string;
  readonly runtime: ContainerRuntime;
  readonly kubelet: Kubelet;
  readonly uplink: Uplink;
  /** Where its driver keeps its volumes, as it is seen from outside. */
  readonly dataDirectory: string;
  /** Of a process that sees its mounts. */
  readonly pid: number;
  readonly #place: NodePlace;
  readonly #namespaces: Namespaces;

  private constructor(
    { dataDirectory, directory, name }: NodePlan,
    namespaces: Namespaces,
    uplink: Uplink,
    runtime: ContainerRuntime,
    kubelet: Kubelet,
  ) {
    this.name = name;
    this.#place = directory.ofNode(name);
    this.#namespaces = namespaces;
    this.uplink = uplink;
    this.runtime = runtime;
    this.kubelet = kubelet;
    this.pid = namespaces.pid;
    this.dataDirectory = namespaces.seen(dataDirectory);
  }

  static async start(plan: NodePlan): Promise<FleetNode> {
    const { dataDirectory, directory, index, name, programs, server, shared } = plan;
    const place = directory.ofNode(name);
    await using starting = new AsyncDisposableStack();
    const namespaces = starting.use(await Namespaces.make(directory, place));
    await namespaces.share(place.makeDirectory('kubelet'), kubeletDirectory);
    await namespaces.share(place.makeDirectory('holdfast'), dataDirectory);
    for (const [at, path] of shared.entries()) await namespaces.share(place.makeDirectory(`shared-${at}`), path);
    const addresses = addressesOf(index);
    const uplink = await Uplink.plugIn(directory, index, namespaces, addresses);
    const runtime = starting.use(await ContainerRuntime.start({ programs, place, node: { namespaces, addresses } }));
    const kubelet = starting.use(
      await Kubelet.start({
        programs,
        place,
        kubeconfig: server.kubeconfig(`system:node:${name}`),
        runtimeSocket: runtime.socket,
        rootDirectory: kubeletDirectory,
        nodeName: name,
        address: addresses.node,
        namespaces,
        nameServer: fleetNetwork.nameServer,
      }),
    );
    starting.move();
    return new FleetNode(plan, namespaces, uplink, runtime, kubelet);
  }

  /** The socket that its driver serves the kubelet on, as it is to be opened from here. */
  get driverSocket(): string {
    return this.#namespaces.seen(join(kubeletDirectory, 'plugins', 'holdfast.csi.dev', 'csi.sock'));
  }

  /** A path as the node has it, as it is to be opened from out here. */
  seen(path: string): string {
    return this.#namespaces.seen(path);
  }

  /** The handles of the volumes in its pool, by what is on its disk. */
  volumes(): string[] {
    return readdirSync(join(this.dataDirectory, 'pools', 'default', 'volumes'));
  }

  /** What runs in its pods. */
  processes(): ProcessView[] {
    return processes().filter(({ cgroups }) => cgroups.includes(`/${this.#place.cgroup}/`));
  }

  /** Its kubelet and all that runs in its pods end at once, and nobody reaches it any more. */
  async losePower(): Promise<void> {
    this.uplink.block();
    await this.kubelet.kill();
    await this.#killPods();
  }

  /** As after `losePower`, with the disks that it had. */
  async powerUp(): Promise<void> {
    this.uplink.unblock();
    await this.kubelet.resume();
  }

  async #killPods(): Promise<void> {
    await waitFor('the processes of its pods to be gone', () => {
      const left = this.processes();
      for (const { pid } of left) killProcess(pid);
      if (left.length > 0) throw new Error(`there are ${left.length}`);
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kubelet[Symbol.asyncDispose]();
    await this.runtime[Symbol.asyncDispose]();
    await this.#namespaces[Symbol.asyncDispose]();
  }
}
