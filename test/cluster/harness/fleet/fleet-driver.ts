import { z } from 'zod';
import type { ClusterDirectory } from '../directory.ts';
import type { Kubectl } from '../kubectl.ts';
import type { ProcessView } from '../processes.ts';
import { waitFor } from '../waiting.ts';
import { type ManifestPlan, manifestsFor } from './manifests.ts';
import type { FleetNode } from './node.ts';

const manifests = ['deploy', 'deploy/snapshots', 'deploy/group-snapshots', 'deploy/attributes'] as const;
const namespace = 'holdfast-system';
const nodeList = z.object({ nodes: z.array(z.object({ name: z.string(), hasTold: z.boolean() })) });
const podList = z.object({
  items: z.array(
    z.object({
      metadata: z.object({
        name: z.string(),
        labels: z.record(z.string(), z.string()),
        deletionTimestamp: z.string().optional(),
      }),
      spec: z.object({ nodeName: z.string().optional() }),
    }),
  ),
});

type Pod = z.infer<typeof podList>['items'][number];

/** A container with our program, on one of the nodes. */
export interface Replica {
  readonly pod: string;
  readonly node: FleetNode;
}

/** Our driver on several nodes, with its controller, from our own manifests. */
export class FleetDriver {
  readonly #kubectl: Kubectl;
  readonly #directory: ClusterDirectory;
  readonly #dataDirectory: string;
  readonly #nodes: readonly FleetNode[];

  constructor(kubectl: Kubectl, directory: ClusterDirectory, dataDirectory: string, nodes: readonly FleetNode[]) {
    this.#kubectl = kubectl;
    this.#directory = directory;
    this.#dataDirectory = dataDirectory;
    this.#nodes = nodes;
  }

  /** `kubectl apply -k deploy`, also over what a test has applied in another way. */
  async install(): Promise<void> {
    const input = await this.manifests({ parts: manifests });
    const apply = ['apply', '--server-side', '--force-conflicts', '--validate=strict', '-f', '-'];
    await this.#kubectl.run(apply, { input });
    await this.ready();
  }

  /** `kubectl delete -k deploy`, of whatever is there of it: the volumes stay. */
  async uninstall(): Promise<void> {
    const input = await this.manifests({ parts: manifests });
    await this.#kubectl.run(['delete', '--ignore-not-found', '--timeout=140s', '-f', '-'], { input });
  }

  /** Manifests, as they are applied to this cluster. */
  manifests(plan: ManifestPlan): Promise<string> {
    const makeDirectory = (name: string) => this.#directory.makeDirectory(name);
    return manifestsFor({ kubectl: this.#kubectl, dataDirectory: this.#dataDirectory, makeDirectory }, plan);
  }

  /** The driver on each node, and both replicas of the controller. */
  async ready(): Promise<void> {
    for (const object of ['deployment/holdfast-controller', 'daemonset/holdfast']) {
      await this.run(['rollout', 'status', '--timeout=140s', object]);
    }
  }

  /** Each replica of the controller has a link to each node, and has been told all that is there. */
  async linked(): Promise<void> {
    for (const { pod } of await this.controllers()) {
      await waitFor(`${pod} to have a link to each node`, async () => {
        const path = `/api/v1/namespaces/${namespace}/pods/${pod}:9808/proxy/nodes`;
        const text = await this.#kubectl.run(['get', '--raw', path]);
        const there = nodeList.parse(JSON.parse(text)).nodes.filter(({ hasTold }) => hasTold);
        if (there.length < this.#nodes.length) throw new Error(text);
      });
    }
  }

  /** kubectl, in the namespace of the driver. */
  run(parameters: readonly string[]): Promise<string> {
    return this.#kubectl.run(['--namespace', namespace, ...parameters]);
  }

  /** What an operator types in the driver's container on a node. */
  async holdfast(node: string, ...parameters: readonly string[]): Promise<string> {
    const pod = await this.#podOn(node);
    return this.run(['exec', pod, '-c', 'holdfast', '--', 'holdfast', ...parameters]);
  }

  async log(node: string): Promise<string> {
    return this.run(['logs', await this.#podOn(node), '-c', 'holdfast', '--tail=-1']);
  }

  /** The replicas of the controller, and where they run. */
  async controllers(): Promise<Replica[]> {
    const { items } = await this.#pods('holdfast-controller');
    return items.flatMap(({ metadata, spec }) => {
      const node = this.#nodes.find(({ name }) => name === spec.nodeName);
      return node === undefined ? [] : [{ pod: metadata.name, node }];
    });
  }

  async controllerLog(pod: string, container = 'holdfast'): Promise<string> {
    return this.run(['logs', pod, '-c', container, '--tail=-1']);
  }

  /** The process of a replica, as soon as there is one. */
  async controllerProcess({ node, pod }: Replica): Promise<ProcessView> {
    const uid = await this.run(['get', `pod/${pod}`, '-o=jsonpath={.metadata.uid}']);
    return waitFor(`the controller in ${pod}`, () => {
      const isIt = ({ cgroups, commandLine }: ProcessView) =>
        cgroups.includes(uid) && commandLine.includes('holdfast.mjs controller');
      const found = node.processes().find(isIt);
      if (found === undefined) throw new Error('there is no such process');
      return found;
    });
  }

  /** The socket that a replica serves its sidecars on, as it is to be opened from here. */
  async controllerSocket(replica: Replica): Promise<string> {
    const { pid } = await this.controllerProcess(replica);
    return `/proc/${pid}/root/csi/csi.sock`;
  }

  /** The process of the driver, or of the controller, on a node: as soon as there is one. */
  process(node: FleetNode, command: 'serve' | 'controller'): Promise<ProcessView> {
    return waitFor(`holdfast ${command} on ${node.name}`, () => {
      const found = node.processes().find(({ commandLine }) => commandLine.includes(`holdfast.mjs ${command}`));
      if (found === undefined) throw new Error('there is no such process');
      return found;
    });
  }

  /** Each node that has a driver, and of which of the chart's groups that is: empty, if of none. */
  async groups(): Promise<[node: string, group: string][]> {
    const pods = await this.#driverPods();
    return pods
      .map(({ metadata, spec }): [string, string] => [
        spec.nodeName ?? '',
        metadata.labels['app.kubernetes.io/component'] ?? '',
      ])
      .sort();
  }

  /** Those that are to stay. */
  async #driverPods(): Promise<Pod[]> {
    const { items } = await this.#pods('holdfast', 'holdfast-group');
    return items.filter(({ metadata }) => metadata.deletionTimestamp === undefined);
  }

  async #podOn(node: string): Promise<string> {
    const pods = await this.#driverPods();
    const pod = pods.find(({ spec }) => spec.nodeName === node);
    if (pod === undefined) throw new Error(`there is no driver on ${node}`);
    return pod.metadata.name;
  }

  async #pods(...names: readonly string[]): Promise<z.infer<typeof podList>> {
    const selector = `app.kubernetes.io/name in (${names.join(',')})`;
    const text = await this.run(['get', 'pods', '-l', selector, '-o', 'json']);
    return podList.parse(JSON.parse(text));
  }
}
