import { writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { ClusterDirectory } from './directory.ts';
import { hostDirectories } from './host-directories.ts';
import { machineImages } from './images.ts';
import type { Kubectl } from './kubectl.ts';
import { killProcess, type ProcessView, processes, processFile } from './processes.ts';
import { waitFor } from './waiting.ts';

/** Our own manifests without a controller, as an operator applies them: for any number of nodes, and for one only. */
const manifests = {
  'any number': ['deploy/node-sidecars', 'deploy/snapshots', 'deploy/attributes'],
  one: ['deploy/one-node', 'deploy/snapshots', 'deploy/group-snapshots', 'deploy/attributes'],
} as const;
type Nodes = keyof typeof manifests;
const projectRoot = fileURLToPath(new URL('../../..', import.meta.url));
const namespace = 'holdfast-system';
const daemonSet = 'daemonset/holdfast';

/** A change of JSON (RFC 6902) in objects of a kind. */
export interface Patch {
  readonly target: { readonly kind: string; readonly name?: string };
  readonly patch: readonly object[];
}

/** Our driver in a cluster, from our own manifests. */
export class Driver {
  readonly #kubectl: Kubectl;
  readonly #directory: ClusterDirectory;
  /** Where it keeps its volumes, as the machine sees it. */
  readonly dataDirectory: string;
  readonly #patches: readonly Patch[];

  /** @param plan.patches what is changed in the manifests besides */
  constructor(
    kubectl: Kubectl,
    directory: ClusterDirectory,
    {
      dataDirectory = directory.join('holdfast'),
      patches = [],
    }: { readonly dataDirectory?: string; readonly patches?: readonly Patch[] } = {},
  ) {
    this.#kubectl = kubectl;
    this.#directory = directory;
    this.#patches = patches;
    this.dataDirectory = dataDirectory;
  }

  /**
   * `kubectl apply -k deploy/node-sidecars` or deploy/one-node, with images of this machine, on its network and with a data directory of
   * its own.
   */
  async install(nodes: Nodes = 'any number'): Promise<void> {
    const input = await this.#objects(nodes);
    await this.#kubectl.run(['apply', '--server-side', '--validate=strict', '-f', '-'], { input });
    await this.ready();
  }

  /** `kubectl delete -k`, of whatever is there of them: the volumes stay. */
  async uninstall(nodes: Nodes = 'any number'): Promise<void> {
    const input = await this.#objects(nodes);
    await this.#kubectl.run(['delete', '--ignore-not-found', '--timeout=120s', '-f', '-'], { input });
  }

  async ready(): Promise<void> {
    await this.#run(['rollout', 'status', '--timeout=900s', daemonSet]);
  }

  /** A new version of it: the pod is replaced. */
  async upgrade(image: string): Promise<void> {
    await this.#run(['set', 'image', daemonSet, `holdfast=${image}`]);
    await this.ready();
  }

  /** What an operator types in its container. */
  holdfast(...parameters: readonly string[]): Promise<string> {
    return this.#run(['exec', daemonSet, '-c', 'holdfast', '--', 'holdfast', ...parameters]);
  }

  log(): Promise<string> {
    return this.#run(['logs', daemonSet, '-c', 'holdfast', '--tail=-1']);
  }

  /** Its process, as soon as there is one. */
  process(): Promise<ProcessView> {
    return waitFor('the driver to be a process', () => {
      const found = this.#containers().find(({ commandLine }) => commandLine.includes('holdfast.mjs serve'));
      if (found === undefined) throw new Error('there is none');
      return found;
    });
  }

  async kill(): Promise<void> {
    killProcess((await this.process()).pid);
  }

  /** The memory of each process of its pod, in bytes: what is its own, what it has at all, and the most it ever had. */
  async memory(): Promise<Record<string, { ownBytes: number; residentBytes: number; mostBytes: number }>> {
    const pod = podOf(await this.process());
    const members = this.#containers().filter(({ cgroups }) => cgroups.includes(pod));
    return Object.fromEntries(
      members.map(({ pid, commandLine }) => {
        const status = processFile(pid, 'status');
        const bytes = (field: string) => Number(new RegExp(`^${field}:\\s+([0-9]+)`, 'm').exec(status)?.[1]) * 1024;
        const name = /csi-[a-z]+|holdfast|sleep/.exec(commandLine)?.[0] ?? commandLine;
        return [name, { ownBytes: bytes('RssAnon'), residentBytes: bytes('VmRSS'), mostBytes: bytes('VmHWM') }];
      }),
    );
  }

  #containers(): ProcessView[] {
    return processes().filter(({ cgroups }) => cgroups.includes(`/${this.#directory.name}/`));
  }

  #run(parameters: readonly string[]): Promise<string> {
    return this.#kubectl.run(['--namespace', namespace, ...parameters]);
  }

  #objects(nodes: Nodes): Promise<string> {
    const overlay = this.#directory.makeDirectory('overlay');
    writeFileSync(join(overlay, 'kustomization.yaml'), JSON.stringify(this.#overlay(nodes)));
    return this.#kubectl.run(['kustomize', '--load-restrictor=LoadRestrictionsNone', overlay]);
  }

  #overlay(nodes: Nodes): object {
    // Relative, because kustomize takes no other.
    const fromOverlay = (path: string) => relative(this.#directory.join('overlay'), join(projectRoot, path));
    return {
      resources: manifests[nodes].map(fromOverlay),
      components: [fromOverlay('deploy/inline-volumes/component')],
      images: machineImages(),
      patches: [
        {
          target: { kind: 'DaemonSet' },
          patch: JSON.stringify([
            // Pods have no network here, and the API server is on this machine's loopback device.
            { op: 'add', path: '/spec/template/spec/hostNetwork', value: true },
          ]),
        },
        { target: { kind: 'DaemonSet' }, patch: JSON.stringify(this.#dataPatch()) },
        ...this.#patches.map(({ patch, target }) => ({ target, patch: JSON.stringify(patch) })),
      ],
    };
  }

  #dataPatch(): object {
    return {
      apiVersion: 'apps/v1',
      kind: 'DaemonSet',
      metadata: { name: 'holdfast' },
      spec: {
        template: { spec: { volumes: hostDirectories(this.dataDirectory) } },
      },
    };
  }
}

/** The identifier of the pod that a process belongs to. */
function podOf({ cgroups }: ProcessView): string {
  return /\/(pod[0-9a-f-]{36})\//.exec(cgroups)?.[1] ?? 'no pod';
}
