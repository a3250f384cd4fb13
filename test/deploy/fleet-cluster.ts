import type { ChildProcess } from 'node:child_process';
import { closeSync, mkdirSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import type { StandaloneApiServer } from '../cluster/api-server.ts';
import { buildPrograms } from '../cluster/harness/programs.ts';
import { audience } from '../fleet/support/api-double.ts';
import { spawnWithUs } from '../support/child.ts';
import type { Scratch } from '../support/scratch.ts';
import { type KubernetesObject, objectsOf } from './objects.ts';

/*
 * What kubelets and the controller manager do for the objects of deploy/fleet, on an API server that has neither.
 */

export const namespace = 'holdfast-system';

const kubeconfig = z.object({
  clusters: z.tuple([z.object({ cluster: z.object({ server: z.string(), 'certificate-authority': z.string() }) })]),
});

/** What a pod of an account finds in its directory, and how it reaches the API server. */
export interface Account {
  readonly url: string;
  readonly authority: string;
  readonly directory: string;
}

export async function makeAccount(
  { kubeconfig: path, kubectl }: StandaloneApiServer,
  scratch: Scratch,
  name: 'holdfast' | 'holdfast-controller' = 'holdfast-controller',
): Promise<Account> {
  const { cluster } = kubeconfig.parse(JSON.parse(readFileSync(path, 'utf8'))).clusters[0];
  const { server: url, 'certificate-authority': authority } = cluster;
  const directory = scratch.join(`account ${name}`);
  mkdirSync(directory);
  writeFileSync(join(directory, 'namespace'), namespace);
  writeFileSync(join(directory, 'ca.crt'), readFileSync(authority));
  const token = await kubectl.run(['-n', namespace, 'create', 'token', name]);
  writeFileSync(join(directory, 'token'), token);
  return { url, authority, directory };
}

/** The variables of a controller with that account. */
export function controllerEnvironment({ directory, url }: Account): Record<string, string> {
  return {
    HOLDFAST_API_SERVER: url,
    HOLDFAST_SERVICE_ACCOUNT_DIR: directory,
    HOLDFAST_LINK_ADDRESS: '127.0.0.1:0',
  };
}

/** The certificate by which nodes believe the controller. */
export async function writeAuthority({ kubectl }: StandaloneApiServer, path: string): Promise<void> {
  const trusted = ['get', 'configmap', 'holdfast-controller', '-o', 'jsonpath={.data.ca\\.crt}'];
  writeFileSync(path, await kubectl.run(['-n', namespace, ...trusted]));
}

/** What a kubelet with the driver makes of itself, and the driver's pod there. */
export async function addNode({ kubectl }: StandaloneApiServer, name: string): Promise<void> {
  const topologyKey = 'topology.holdfast.dev/node';
  const drivers = [{ name: 'holdfast.csi.dev', nodeID: name, topologyKeys: [topologyKey] }];
  const container = { name: 'holdfast', image: 'localhost/holdfast' };
  await kubectl.apply([
    { apiVersion: 'v1', kind: 'Node', metadata: { name, labels: { [topologyKey]: name } } },
    { apiVersion: 'storage.k8s.io/v1', kind: 'CSINode', metadata: { name }, spec: { drivers } },
    {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: `driver-${name}`, namespace },
      spec: { nodeName: name, serviceAccountName: 'holdfast-node', containers: [container] },
    },
  ]);
}

/** What the kubelet projects into the pod. */
export function tokenOf({ kubectl }: StandaloneApiServer, node: string): Promise<string> {
  const bound = ['--bound-object-kind=Pod', `--bound-object-name=driver-${node}`, `--audience=${audience}`];
  return kubectl.run(['-n', namespace, 'create', 'token', 'holdfast-node', ...bound]);
}

export interface ProvisionerOptions {
  readonly account: Account;
  readonly socketPath: string;
  /** As the container in the manifests has them. */
  readonly args: readonly string[];
  /** Of the pod. */
  readonly environment: Readonly<Record<string, string>>;
  /** How often it asks for capacities; more often than in the manifests unless given. */
  readonly capacityInterval?: string;
}

/** The stock provisioner at work. */
export class Provisioner implements AsyncDisposable {
  readonly #child: ChildProcess;
  readonly #logPath: string;
  readonly #ended: Promise<void>;

  private constructor(child: ChildProcess, logPath: string) {
    this.#child = child;
    this.#logPath = logPath;
    this.#ended = new Promise((resolve) => child.once('exit', () => resolve()));
  }

  static async start(scratch: Scratch, name: string, options: ProvisionerOptions): Promise<Provisioner> {
    const { account, capacityInterval = '2s', environment, socketPath } = options;
    const [kubeconfigPath, logPath] = [scratch.join(`${name}.kubeconfig`), scratch.join(`${name}.log`)];
    const config = {
      apiVersion: 'v1',
      kind: 'Config',
      'current-context': 'cluster',
      contexts: [{ name: 'cluster', context: { cluster: 'cluster', user: 'holdfast', namespace } }],
      clusters: [{ name: 'cluster', cluster: { server: account.url, 'certificate-authority': account.authority } }],
      users: [{ name: 'holdfast', user: { tokenFile: join(account.directory, 'token') } }],
    };
    writeFileSync(kubeconfigPath, JSON.stringify(config));
    const programs = await buildPrograms(['csi-provisioner']);
    // Whose the capacities are is what only a pod can ask.
    const args = options.args.map((argument) =>
      argument
        .replace('/csi/csi.sock', socketPath)
        .replace(/ownerref-level=\d/, 'ownerref-level=-1')
        .replace('interval=30s', `interval=${capacityInterval}`),
    );
    // In a pod it is that of the account.
    if (args.includes('--leader-election')) args.push(`--leader-election-namespace=${namespace}`);
    const log = openSync(logPath, 'a');
    // Who leads is known by the name of the host, which in a cluster is the pod's: two of one name both would.
    const ownHost = ['unshare', '--uts', 'sh', '-c', 'hostname "$0" && exec "$@"', name];
    const command = [...ownHost, join(programs, 'csi-provisioner'), `--kubeconfig=${kubeconfigPath}`, ...args];
    const child = spawnWithUs(command, {
      stdio: ['ignore', log, log],
      env: { NAMESPACE: namespace, ...environment },
    });
    closeSync(log);
    return new Provisioner(child, logPath);
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  /** It ends when it has lost its lease, say. In a pod it would be started again. */
  get hasEnded(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null;
  }

  log(): string {
    return readFileSync(this.#logPath, 'utf8').slice(-3000);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.kill('SIGKILL');
    await this.#ended;
  }
}

/** A claim as the controller manager and the scheduler leave it. */
export function claimOn(node: string, name: string): KubernetesObject {
  const annotations = {
    'volume.kubernetes.io/selected-node': node,
    'volume.kubernetes.io/storage-provisioner': 'holdfast.csi.dev',
  };
  const spec = {
    accessModes: ['ReadWriteOnce'],
    storageClassName: 'holdfast',
    resources: { requests: { storage: '64Mi' } },
  };
  const metadata = { name, namespace: 'default', annotations };
  return { apiVersion: 'v1', kind: 'PersistentVolumeClaim', metadata, spec };
}

const container = z.looseObject({ name: z.string(), args: z.array(z.string()).optional() });
const workload = z.object({
  spec: z.object({ template: z.object({ spec: z.object({ containers: z.array(container) }) }) }),
});

/** The provisioner's arguments in a Deployment or DaemonSet. */
export function provisionerArguments(path: string, object: string): string[] {
  const found = objectsOf(readFileSync(path, 'utf8')).get(object);
  const { containers } = workload.parse(found).spec.template.spec;
  return containers.find(({ name }) => name === 'csi-provisioner')?.args ?? [];
}
