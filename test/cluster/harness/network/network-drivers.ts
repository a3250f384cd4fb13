import { writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { ClusterDirectory } from '../directory.ts';
import { machineImages } from '../images.ts';
import type { Kubectl } from '../kubectl.ts';

const projectRoot = fileURLToPath(new URL('../../../..', import.meta.url));
const namespace = 'holdfast-system';
/** Only a failure takes so long. */
const patienceSeconds = 900;

export type DriverName = 'files' | 'disks';

/** Both drivers of volumes that nodes reach over a network, from our own manifests. */
export class NetworkDrivers {
  readonly #kubectl: Kubectl;
  readonly #directory: ClusterDirectory;
  readonly #server: string;

  /** @param server the address of the NFS server, which exports /export */
  constructor(kubectl: Kubectl, directory: ClusterDirectory, server: string) {
    this.#kubectl = kubectl;
    this.#directory = directory;
    this.#server = server;
  }

  /** `kubectl apply -k deploy/files`, or deploy/disks, with images of this machine and the server in the configuration. */
  async install(name: DriverName): Promise<void> {
    const input = await this.#objects(name);
    await this.#kubectl.run(['apply', '--server-side', '--validate=strict', '-f', '-'], { input });
    await this.ready(name);
  }

  /** All of it but the namespace, which both have. */
  async uninstall(name: DriverName): Promise<void> {
    const selected = ['-l', `app.kubernetes.io/name=holdfast-${name}`];
    // Returns when its pods are gone, too.
    await this.run(['delete', 'deployment,daemonset', ...selected, '--cascade=foreground', '--timeout=900s']);
    await this.#kubectl.run(['delete', 'csidriver,storageclass', ...selected]);
  }

  /** Waits until the sidecars of its home work. Nodes know it by then, or pods wait until they do. */
  async ready(name: DriverName): Promise<void> {
    for (const workload of [`deployment/holdfast-${name}`, `daemonset/holdfast-${name}-node`]) {
      await this.run(['rollout', 'status', `--timeout=${patienceSeconds}s`, workload]);
    }
    // One kubectl that waits, and not many that ask: they take the processor from the nodes.
    const lease = `lease/external-attacher-leader-${name}-holdfast-csi-dev`;
    await this.run(['wait', '--for=create', `--timeout=${patienceSeconds}s`, lease]);
  }

  /** The names of the nodes on which its home is, with spaces between them. */
  nodesOfHome(name: DriverName): Promise<string> {
    const selected = ['-l', `app.kubernetes.io/name=holdfast-${name}`];
    return this.run(['get', 'pods', ...selected, '-o=jsonpath={.items[*].spec.nodeName}']);
  }

  /** Runs `kubectl …` in the namespace of the drivers. */
  run(parameters: readonly string[]): Promise<string> {
    return this.#kubectl.run(['--namespace', namespace, ...parameters]);
  }

  /** The ends of all logs. */
  async log(): Promise<string> {
    const texts = await Promise.all(
      [
        this.run(['get', 'pods', '-o', 'wide']),
        ...['files', 'disks'].flatMap((name) => [
          this.run(['logs', `deployment/holdfast-${name}`, '-c', 'holdfast', '--tail=15']),
          this.run(['logs', '-l', `app.kubernetes.io/name=holdfast-${name}-node`, '--prefix', '--tail=15']),
        ]),
      ].map((text) => text.catch(String)),
    );
    return texts.join('\n');
  }

  async #objects(name: DriverName): Promise<string> {
    const overlay = this.#directory.makeDirectory('overlay');
    writeFileSync(join(overlay, 'kustomization.yaml'), JSON.stringify(this.#overlay(`deploy/${name}`)));
    return this.#kubectl.run(['kustomize', '--load-restrictor=LoadRestrictionsNone', overlay]);
  }

  #overlay(path: string): object {
    const patch = (target: object, operations: readonly object[]) => ({ target, patch: JSON.stringify(operations) });
    const replace = (at: string, value: unknown) => ({ op: 'replace', path: at, value });
    const config = `attach: required\npools:\n  files: { kind: nfs, server: ${this.#server}, share: /export }\n`;
    const isFiles = path.endsWith('files');
    return {
      resources: [relative(this.#directory.join('overlay'), join(projectRoot, path))],
      images: machineImages(),
      patches: [
        // The processors of the nodes are programs, which share those of this machine with others.
        ...['Deployment', 'DaemonSet'].map((kind) =>
          patch({ kind }, [
            replace('/spec/template/spec/containers/0/livenessProbe/timeoutSeconds', 120),
            replace('/spec/template/spec/containers/0/livenessProbe/failureThreshold', 100),
            // Its part of a processor that its sidecars want, too.
            replace('/spec/template/spec/containers/0/resources/requests/cpu', '200m'),
          ]),
        ),
        ...(isFiles
          ? [patch({ kind: 'ConfigMap' }, [replace('/data/holdfast.yaml', config)])]
          : // Pods have no network here, but for that of their node; and there the home of the files has the port.
            [{ target: { kind: 'Deployment' }, patch: JSON.stringify(onNodesNetwork) }]),
      ],
    };
  }
}

const port = 9822;
const onNodesNetwork = {
  apiVersion: 'apps/v1',
  kind: 'Deployment',
  metadata: { name: 'holdfast-disks' },
  spec: {
    template: {
      spec: {
        hostNetwork: true,
        containers: [
          {
            name: 'holdfast',
            env: [{ name: 'HOLDFAST_HTTP_ADDRESS', value: `:${port}` }],
            livenessProbe: { httpGet: { port } },
          },
        ],
      },
    },
  },
};
