import { writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import type { ClusterDirectory } from '../directory.ts';
import { machineImages } from '../images.ts';
import type { Kubectl } from '../kubectl.ts';
import type { ProcessView } from '../processes.ts';
import { waitFor } from '../waiting.ts';
import type { FleetNode } from './node.ts';

const manifests = ['deploy/fleet', 'deploy/snapshots', 'deploy/group-snapshots', 'deploy/attributes'] as const;
const projectRoot = fileURLToPath(new URL('../../../..', import.meta.url));
const namespace = 'holdfast-system';
const nodeList = z.object({ nodes: z.array(z.object({ name: z.string(), hasTold: z.boolean() })) });
const podList = z.object({
  items: z.array(
    z.object({ metadata: z.object({ name: z.string() }), spec: z.object({ nodeName: z.string().optional() }) }),
  ),
});

/** A container with our program, on one of the nodes. */
interface Replica {
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

  /** `kubectl apply -k deploy/fleet`, with images of this machine and a data directory of the cluster's own. */
  async install(): Promise<void> {
    const overlay = this.#directory.makeDirectory('overlay');
    writeFileSync(join(overlay, 'kustomization.yaml'), JSON.stringify(this.#overlay(overlay)));
    const input = await this.#kubectl.run(['kustomize', '--load-restrictor=LoadRestrictionsNone', overlay]);
    await this.#kubectl.run(['apply', '--server-side', '--validate=strict', '-f', '-'], { input });
    await this.ready();
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

  /** The process of the driver, or of the controller, on a node: as soon as there is one. */
  process(node: FleetNode, command: 'serve' | 'controller'): Promise<ProcessView> {
    return waitFor(`holdfast ${command} on ${node.name}`, () => {
      const found = node.processes().find(({ commandLine }) => commandLine.includes(`holdfast.mjs ${command}`));
      if (found === undefined) throw new Error('there is no such process');
      return found;
    });
  }

  async #podOn(node: string): Promise<string> {
    const { items } = await this.#pods('holdfast');
    const pod = items.find(({ spec }) => spec.nodeName === node);
    if (pod === undefined) throw new Error(`there is no driver on ${node}`);
    return pod.metadata.name;
  }

  async #pods(name: string): Promise<z.infer<typeof podList>> {
    const text = await this.run(['get', 'pods', '-l', `app.kubernetes.io/name=${name}`, '-o', 'json']);
    return podList.parse(JSON.parse(text));
  }

  #overlay(overlay: string): object {
    // Relative, because kustomize takes no other.
    const fromOverlay = (path: string) => relative(overlay, join(projectRoot, path));
    const data = { name: 'data', hostPath: { path: this.#dataDirectory, type: 'Directory' } };
    const patch = {
      apiVersion: 'apps/v1',
      kind: 'DaemonSet',
      metadata: { name: 'holdfast' },
      spec: { template: { spec: { volumes: [data] } } },
    };
    return {
      resources: manifests.map(fromOverlay),
      images: machineImages(),
      patches: [{ target: { kind: 'DaemonSet' }, patch: JSON.stringify(patch) }],
    };
  }
}
