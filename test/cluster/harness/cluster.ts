import { rmSync } from 'node:fs';
import { ApiServer } from './api-server.ts';
import { ContainerRuntime } from './container-runtime.ts';
import { Controllers } from './controllers.ts';
import { ClusterDirectory } from './directory.ts';
import { makeImages } from './images.ts';
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

/** A whole Kubernetes of one node, on this machine. */
export class Cluster implements AsyncDisposable {
  readonly directory: ClusterDirectory;
  readonly server: ApiServer;
  readonly runtime: ContainerRuntime;
  readonly kubelet: Kubelet;
  #controllers: Controllers;

  private constructor(
    directory: ClusterDirectory,
    server: ApiServer,
    runtime: ContainerRuntime,
    kubelet: Kubelet,
    controllers: Controllers,
  ) {
    this.directory = directory;
    this.server = server;
    this.runtime = runtime;
    this.kubelet = kubelet;
    this.#controllers = controllers;
  }

  /** Builds what is missing, starts everything, and resolves when the node is ready for pods. */
  static async start(): Promise<Cluster> {
    const programs = await buildPrograms(clusterPrograms);
    await using starting = new AsyncDisposableStack();
    const directory = starting.use(await ClusterDirectory.make());
    const plan = { programs, address, port: 443, serviceRange, hasControllers: true };
    const server = starting.use(await ApiServer.start(directory, plan));
    const runtime = starting.use(await ContainerRuntime.start(programs, directory));
    for (const archive of await makeImages(programs, directory.makeDirectory('images'))) {
      await runtime.importImage(archive);
      rmSync(archive);
    }
    const kubeconfig = server.kubeconfig('system:node:127.0.0.1');
    const kubelet = starting.use(
      await Kubelet.start(directory, { programs, kubeconfig, runtimeSocket: runtime.socket }),
    );
    await applySnapshotCrds(server.kubectl);
    const controllers = starting.use(await Controllers.start(programs, directory, server));
    await server.kubectl.run(['wait', '--for=condition=Ready', '--timeout=60s', 'node', '--all']);
    starting.move();
    return new Cluster(directory, server, runtime, kubelet, controllers);
  }

  get kubectl(): Kubectl {
    return this.server.kubectl;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#controllers[Symbol.asyncDispose]();
    await this.kubelet[Symbol.asyncDispose]();
    await this.runtime[Symbol.asyncDispose]();
    await this.server[Symbol.asyncDispose]();
    await this.directory[Symbol.asyncDispose]();
  }
}
