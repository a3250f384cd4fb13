import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { existsSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { Daemon } from './daemon.ts';
import type { ClusterDirectory } from './directory.ts';
import { Kubectl } from './kubectl.ts';

/** Whom the API server knows besides the kubelets; each has a kubeconfig. */
const users = {
  admin: ['system:masters'],
  'system:kube-controller-manager': [],
  'system:kube-scheduler': [],
} as const satisfies Record<string, readonly string[]>;
export type User = keyof typeof users | `system:node:${string}`;

/** Where an API server is to be reached, and what it asks of pods. */
export interface ApiServerPlan {
  /** The directory of the programs. */
  readonly programs: string;
  readonly address: string;
  readonly port: number;
  readonly serviceRange: string;
  /** A pod needs its service account's token, which the controller manager makes; off where there is none. */
  readonly hasControllers: boolean;
  /** The names of the nodes whose kubelets talk to it. */
  readonly nodes?: readonly string[];
}

/** etcd and an API server, with nothing else of a cluster. */
export class ApiServer implements AsyncDisposable {
  readonly kubectl: Kubectl;
  readonly url: string;
  readonly #plan: ApiServerPlan;
  readonly #directory: ClusterDirectory;
  readonly #tokens: ReadonlyMap<User, string>;
  #daemons: readonly Daemon[] = [];
  #featureGates: readonly string[] = [];

  private constructor(plan: ApiServerPlan, directory: ClusterDirectory) {
    this.#plan = plan;
    this.#directory = directory;
    this.url = `https://${plan.address}:${plan.port}`;
    const names = [...userNames(), ...(plan.nodes ?? []).map((node) => `system:node:${node}` as const)];
    this.#tokens = new Map(names.map((user) => [user, randomBytes(16).toString('hex')]));
    this.kubectl = new Kubectl(join(plan.programs, 'kubectl'), this.kubeconfig('admin'));
  }

  /** Resolves when it is ready for requests. */
  static async start(directory: ClusterDirectory, plan: ApiServerPlan): Promise<ApiServer> {
    const server = new ApiServer(plan, directory);
    server.#writeKeys();
    await server.resume();
    return server;
  }

  /** Starts it again after `stop`, with the keys that it had and whatever is in its database. */
  async resume(): Promise<void> {
    const ports = { client: await freePort(), peer: await freePort() };
    const etcd = this.#start('etcd', [
      `--data-dir=${this.databaseDirectory}`,
      `--listen-client-urls=http://127.0.0.1:${ports.client}`,
      `--advertise-client-urls=http://127.0.0.1:${ports.client}`,
      `--listen-peer-urls=http://127.0.0.1:${ports.peer}`,
      `--initial-advertise-peer-urls=http://127.0.0.1:${ports.peer}`,
      `--initial-cluster=default=http://127.0.0.1:${ports.peer}`,
      // It is a test: what a power cut would take is of no interest.
      '--unsafe-no-fsync',
    ]);
    const server = this.#start('kube-apiserver', this.#parameters(ports.client));
    this.#daemons = [server, etcd];
    await server.ready(async () => {
      if (!existsSync(this.certificate)) throw new Error('it has not made its certificate yet');
      for (const user of this.#tokens.keys()) this.#writeKubeconfig(user);
      await this.kubectl.run(['get', '--raw', '/readyz'], { timeoutMs: 5000 });
    });
  }

  /** The file with which a component, or an administrator, talks to it. */
  kubeconfig(user: User): string {
    return this.#directory.join(`${user.replaceAll(':', '-')}.kubeconfig`);
  }

  /** Its certificate, which vouches for itself. */
  get certificate(): string {
    return this.#directory.join('certificates', 'apiserver.crt');
  }

  /** What signs the tokens of service accounts. */
  get serviceAccountKey(): string {
    return this.#directory.join('service-accounts.key');
  }

  /** All that the cluster knows. */
  get databaseDirectory(): string {
    return this.#directory.join('etcd');
  }

  /** Starts it again, with these features turned on and no others. */
  async turnOn(featureGates: readonly string[]): Promise<void> {
    await this.stop();
    this.#featureGates = featureGates;
    await this.resume();
  }

  async stop(): Promise<void> {
    for (const daemon of this.#daemons) await daemon[Symbol.asyncDispose]();
    this.#daemons = [];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  #start(name: string, parameters: readonly string[]): Daemon {
    const logFile = join(this.#directory.makeDirectory('logs'), `${name}.log`);
    return new Daemon({ name, command: [join(this.#plan.programs, name), ...parameters], logFile });
  }

  #parameters(etcdPort: number): string[] {
    const { address, port, serviceRange, hasControllers } = this.#plan;
    return [
      `--etcd-servers=http://127.0.0.1:${etcdPort}`,
      `--bind-address=${address}`,
      `--advertise-address=${address}`,
      `--secure-port=${port}`,
      `--service-cluster-ip-range=${serviceRange}`,
      '--endpoint-reconciler-type=none',
      // Nobody knows the names of nodes.
      '--kubelet-preferred-address-types=InternalIP',
      // It makes a certificate for itself here, with its addresses in it.
      `--cert-dir=${this.#directory.makeDirectory('certificates')}`,
      `--token-auth-file=${this.#tokenFile}`,
      '--authorization-mode=Node,RBAC',
      '--anonymous-auth=false',
      '--allow-privileged=true',
      '--service-account-issuer=https://kubernetes.default.svc',
      `--service-account-key-file=${this.serviceAccountKey}`,
      `--service-account-signing-key-file=${this.serviceAccountKey}`,
      '--profiling=false',
      ...this.#featureGates.map((gate) => `--feature-gates=${gate}=true`),
      ...(hasControllers ? [] : ['--disable-admission-plugins=ServiceAccount']),
    ];
  }

  get #tokenFile(): string {
    return this.#directory.join('tokens.csv');
  }

  #writeKeys(): void {
    const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
    writeFileSync(this.serviceAccountKey, privateKey.export({ type: 'pkcs8', format: 'pem' }), { mode: 0o600 });
    const lines = Array.from(
      this.#tokens,
      ([user, token]) => `${token},${user},${user},"${groupsOf(user).join(',')}"\n`,
    );
    writeFileSync(this.#tokenFile, lines.join(''), { mode: 0o600 });
  }

  #writeKubeconfig(user: User): void {
    const config = {
      apiVersion: 'v1',
      kind: 'Config',
      'current-context': 'cluster',
      contexts: [{ name: 'cluster', context: { cluster: 'cluster', user } }],
      clusters: [{ name: 'cluster', cluster: { server: this.url, 'certificate-authority': this.certificate } }],
      users: [{ name: user, user: { token: this.#tokens.get(user) } }],
    };
    writeFileSync(this.kubeconfig(user), JSON.stringify(config), { mode: 0o600 });
  }
}

/** A port of the loopback address that nobody listens on now. */
export function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const address = server.address();
      server.close(() => {
        if (typeof address === 'object' && address !== null) resolve(address.port);
        else reject(new Error('no port'));
      });
    });
  });
}

function userNames(): (keyof typeof users)[] {
  return Object.keys(users).filter((name): name is keyof typeof users => name in users);
}

function groupsOf(user: User): readonly string[] {
  const groups: Readonly<Record<string, readonly string[]>> = users;
  return groups[user] ?? ['system:nodes'];
}
