import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { makeCgroup } from './cgroup.ts';
import { Daemon } from './daemon.ts';
import type { ClusterDirectory } from './directory.ts';

/** The one node's name and address. */
export const nodeName = '127.0.0.1';

interface KubeletPlan {
  readonly programs: string;
  readonly kubeconfig: string;
  readonly runtimeSocket: string;
}

/** The kubelet, which a test may restart. */
export class Kubelet implements AsyncDisposable {
  readonly #directory: ClusterDirectory;
  readonly #command: readonly [string, ...string[]];
  #daemon: Daemon;

  private constructor(directory: ClusterDirectory, command: readonly [string, ...string[]]) {
    this.#directory = directory;
    this.#command = command;
    this.#daemon = this.#spawn();
  }

  static async start(directory: ClusterDirectory, plan: KubeletPlan): Promise<Kubelet> {
    makeCgroup(directory.name);
    const configFile = directory.join('kubelet.json');
    writeFileSync(configFile, JSON.stringify(configuration(directory, plan)));
    const kubelet = new Kubelet(directory, [
      join(plan.programs, 'kubelet'),
      `--config=${configFile}`,
      `--kubeconfig=${plan.kubeconfig}`,
      `--root-dir=${directory.makeKubeletDirectory()}`,
      `--cert-dir=${directory.makeDirectory('kubelet-certificates')}`,
      `--hostname-override=${nodeName}`,
    ]);
    await kubelet.#ready();
    return kubelet;
  }

  /** Its process dies, and another one takes over the pods that it finds. */
  async restart(): Promise<void> {
    await this.#daemon.kill();
    await this.resume();
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
    const logFile = join(this.#directory.makeDirectory('logs'), 'kubelet.log');
    return new Daemon({ name: 'kubelet', command: this.#command, logFile });
  }

  async #ready(): Promise<void> {
    await this.#daemon.ready(async () => {
      const answer = await fetch(`http://127.0.0.1:${healthPort}/healthz`);
      if (!answer.ok) throw new Error(await answer.text());
    });
  }
}

const healthPort = 10248;

/** https://kubernetes.io/docs/reference/config-api/kubelet-config.v1beta1/ */
function configuration(directory: ClusterDirectory, plan: KubeletPlan): object {
  return {
    apiVersion: 'kubelet.config.k8s.io/v1beta1',
    kind: 'KubeletConfiguration',
    address: '127.0.0.1',
    healthzBindAddress: '127.0.0.1',
    healthzPort: healthPort,
    // It can be reached from this machine only.
    authentication: { anonymous: { enabled: true }, webhook: { enabled: false } },
    authorization: { mode: 'AlwaysAllow' },
    containerRuntimeEndpoint: `unix://${plan.runtimeSocket}`,
    podLogsDir: directory.makeDirectory('pod-logs'),
    volumePluginDir: directory.makeDirectory('volume-plugins'),
    cgroupDriver: 'cgroupfs',
    cgroupRoot: `/${directory.name}`,
    failCgroupV1: false,
    failSwapOn: false,
    makeIPTablesUtilChains: false,
    maxPods: 200,
    // A container that a test kills again and again comes back again and again.
    crashLoopBackOff: { maxContainerRestartPeriod: '1s' },
    // Whatever else fills the disk of this machine, our pods stay.
    evictionHard: { 'memory.available': '1Mi', 'nodefs.available': '1Mi', 'imagefs.available': '1Mi' },
    imageGCHighThresholdPercent: 100,
    localStorageCapacityIsolation: false,
    // How soon it looks at what has changed about a running pod, such as the size of its claim.
    syncFrequency: '5s',
    kubeAPIQPS: 100,
    kubeAPIBurst: 200,
    registryPullQPS: 0,
    eventRecordQPS: 0,
    serializeImagePulls: false,
  };
}
