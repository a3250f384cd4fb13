import { rmSync } from 'node:fs';
import { installPrograms } from '../../../deploy/image/program.ts';
import { ApiServer } from './api-server.ts';
import { ContainerRuntime } from './container-runtime.ts';
import { Controllers } from './controllers.ts';
import { ClusterDirectory } from './directory.ts';
import { Driver } from './driver.ts';
import { makeDriverImage, makeImages } from './images.ts';
import type { Kubectl } from './kubectl.ts';
import { Kubelet } from './kubelet.ts';
import { buildPrograms, clusterPrograms } from './programs.ts';
import { applySnapshotCrds } from './snapshot-crds.ts';

/**
 * In the range of the cluster's services and on the loopback device: so pods on the host's network reach the API server
 * under the address that Kubernetes tells them, without anything that forwards packets.
 */
const address = '127.96.0.1';
const serviceRange = '127.96.0.0/16';
/** The one node's name and address. */
const nodeName = '127.0.0.1';

/** A whole Kubernetes of one node, on this machine. */
export class Cluster implements AsyncDisposable {
  readonly directory: ClusterDirectory;
  readonly server: ApiServer;
  readonly runtime: ContainerRuntime;
  readonly kubelet: Kubelet;
  readonly driver: Driver;
  readonly #programs: string;
  #controllers: Controllers;

  private constructor(
    programs: string,
    directory: ClusterDirectory,
    server: ApiServer,
    runtime: ContainerRuntime,
    kubelet: Kubelet,
    controllers: Controllers,
  ) {
    this.#programs = programs;
    this.directory = directory;
    this.server = server;
    this.runtime = runtime;
    this.kubelet = kubelet;
    this.#controllers = controllers;
    this.driver = new Driver(server.kubectl, directory);
  }

  /**
   * Builds what is missing, starts everything, and resolves when the node is ready for pods.
   * @param options.withDriver whether the driver's image is to be on the node
   */
  static async start({ withDriver = true }: { readonly withDriver?: boolean } = {}): Promise<Cluster> {
    if (process.getuid?.() !== 0) throw new Error('root is needed: this starts containers and mounts filesystems');
    installPrograms({ runc: 'runc', busybox: 'busybox-static', setpriv: 'util-linux' });
    const programs = await buildPrograms(clusterPrograms);
    await using starting = new AsyncDisposableStack();
    const directory = starting.use(await ClusterDirectory.make());
    const plan = { programs, address, port: 443, serviceRange, hasControllers: true, nodes: [nodeName] };
    const server = starting.use(await ApiServer.start(directory, plan));
    const runtime = starting.use(await ContainerRuntime.start({ programs, place: directory }));
    directory.makeSharedDirectory('holdfast');
    await importImages(runtime, programs, directory.makeDirectory('images'));
    if (withDriver) await runtime.importImage(await makeDriverImage());
    const kubelet = starting.use(
      await Kubelet.start({
        programs,
        place: directory,
        kubeconfig: server.kubeconfig(`system:node:${nodeName}`),
        runtimeSocket: runtime.socket,
        rootDirectory: directory.makeKubeletDirectory(),
        nodeName,
        address: nodeName,
      }),
    );
    await applySnapshotCrds(server.kubectl);
    const controllers = starting.use(await Controllers.start(programs, directory, server));
    const cluster = new Cluster(programs, directory, server, runtime, kubelet, controllers);
    await cluster.#nodeReady();
    starting.move();
    return cluster;
  }

  get kubectl(): Kubectl {
    return this.server.kubectl;
  }

  /** The database is gone with all that the cluster knew; what runs on the node goes on until the kubelet is back. */
  async loseDatabase(): Promise<void> {
    await this.#controllers[Symbol.asyncDispose]();
    await this.kubelet.stop();
    await this.server.stop();
    rmSync(this.server.databaseDirectory, { recursive: true });
    await this.server.resume();
    await applySnapshotCrds(this.kubectl);
    await this.kubelet.resume();
    this.#controllers = await Controllers.start(this.#programs, this.directory, this.server);
    await this.#nodeReady();
    await this.driver.install();
  }

  async #nodeReady(): Promise<void> {
    await this.kubectl.run(['wait', '--for=create', '--timeout=60s', `node/${nodeName}`]);
    await this.kubectl.run(['wait', '--for=condition=Ready', '--timeout=60s', `node/${nodeName}`]);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#controllers[Symbol.asyncDispose]();
    await this.kubelet[Symbol.asyncDispose]();
    await this.runtime[Symbol.asyncDispose]();
    await this.server[Symbol.asyncDispose]();
    await this.directory[Symbol.asyncDispose]();
  }
}

async function importImages(runtime: ContainerRuntime, programs: string, directory: string): Promise<void> {
  for (const archive of await makeImages(programs, directory)) await runtime.importImage(archive);
  rmSync(directory, { recursive: true });
}
