import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { makeCgroup } from './cgroup.ts';
import { Daemon } from './daemon.ts';
import type { NodePlace } from './directory.ts';
import type { Namespaces } from './fleet/namespaces.ts';

interface KubeletPlan {
  readonly programs: string;
  readonly place: NodePlace;
  readonly kubeconfig: string;
  readonly runtimeSocket: string;
  readonly rootDirectory: string;
  readonly nodeName: string;
  readonly address: string;
  /** Where it runs, of one of several nodes. */
  readonly namespaces?: Namespaces;
  /** Who knows the names of services; none if nobody does. */
  readonly nameServer?: string;
  /** The longest time before a container that ends comes back: a second unless it is said. */
  readonly longestRestartPause?: string;
}

/** The kubelet, which a test may restart. */
export class Kubelet implements AsyncDisposable {
  readonly #plan: KubeletPlan;
  readonly #command: readonly [string, ...string[]];
  #daemon: Daemon;

  private constructor(plan: KubeletPlan, command: readonly [string, ...string[]]) {
    this.#plan = plan;
    this.#command = command;
    this.#daemon = this.#spawn();
  }

  static async start(plan: KubeletPlan): Promise<Kubelet> {
    const { namespaces, place } = plan;
    makeCgroup(place.cgroup);
    const configFile = place.join('kubelet.json');
    writeFileSync(configFile, JSON.stringify(configuration(plan)));
    const command = [
      join(plan.programs, 'kubelet'),
      `--config=${configFile}`,
      `--kubeconfig=${plan.kubeconfig}`,
      `--root-dir=${plan.rootDirectory}`,
      `--cert-dir=${place.makeDirectory('kubelet-certificates')}`,
      `--hostname-override=${plan.nodeName}`,
      ...(namespaces === undefined ? [] : [`--node-ip=${plan.address}`]),
    ] as const;
    const kubelet = new Kubelet(plan, namespaces === undefined ? command : namespaces.command(command));
    await kubelet.#ready();
    return kubelet;
  }

  /** Its process dies, and another one takes over the pods that it finds. */
  async restart(): Promise<void> {
    await this.kill();
    await this.resume();
  }

  async kill(): Promise<void> {
    await this.#daemon.kill();
  }

  async stop(): Promise<void> {
    await this.#daemon[Symbol.asyncDispose]();
  }

  async resume(): Promise<void> {
    this.#daemon = this.#spawn();
    await this.#ready();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  #spawn(): Daemon {
    const logFile = join(this.#plan.place.makeDirectory('logs'), 'kubelet.log');
    return new Daemon({ name: 'kubelet', command: this.#command, logFile });
  }

  async #ready(): Promise<void> {
    await this.#daemon.ready(async () => {
      const answer = await fetch(`http://${this.#plan.address}:${healthPort}/healthz`);
      if (!answer.ok) throw new Error(await answer.text());
    });
  }
}

const healthPort = 10248;

/** https://kubernetes.io/docs/reference/config-api/kubelet-config.v1beta1/ */
function configuration({ address, longestRestartPause = '1s', nameServer, place, runtimeSocket }: KubeletPlan): object {
  return {
    apiVersion: 'kubelet.config.k8s.io/v1beta1',
    kind: 'KubeletConfiguration',
    address,
    healthzBindAddress: address,
    healthzPort: healthPort,
    // It can be reached from this machine only.
    authentication: { anonymous: { enabled: true }, webhook: { enabled: false } },
    authorization: { mode: 'AlwaysAllow' },
    containerRuntimeEndpoint: `unix://${runtimeSocket}`,
    podLogsDir: place.makeDirectory('pod-logs'),
    volumePluginDir: place.makeDirectory('volume-plugins'),
    cgroupDriver: 'cgroupfs',
    cgroupRoot: `/${place.cgroup}`,
    failCgroupV1: false,
    failSwapOn: false,
    makeIPTablesUtilChains: false,
    maxPods: 200,
    // A container that a test kills again and again comes back again and again.
    crashLoopBackOff: { maxContainerRestartPeriod: longestRestartPause },
    // Whatever else fills the disk of this machine, our pods stay.
    evictionHard: { 'memory.available': '1Mi', 'nodefs.available': '1Mi', 'imagefs.available': '1Mi' },
    imageGCHighThresholdPercent: 100,
    localStorageCapacityIsolation: false,
    // How soon it looks at what has changed about a running pod, such as the size of its claim.
    syncFrequency: '5s',
    ...(nameServer !== undefined && { clusterDomain: 'cluster.local', clusterDNS: [nameServer] }),
    kubeAPIQPS: 100,
    kubeAPIBurst: 200,
    registryPullQPS: 0,
    eventRecordQPS: 0,
    serializeImagePulls: false,
  };
}
