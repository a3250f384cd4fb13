import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { runToEnd } from './command.ts';

const moduleDirectory = fileURLToPath(new URL('../go', import.meta.url));
const moduleText = readFileSync(join(moduleDirectory, 'go.mod'), 'utf8');

/** Of a module that go/go.mod requires. */
function requiredVersion(module: string): string {
  const version = new RegExp(`^\\t${module} (v\\S+)`, 'm').exec(moduleText)?.[1];
  if (version === undefined) throw new Error(`${moduleDirectory}/go.mod requires no ${module}`);
  return version;
}

export const kubernetesVersion = requiredVersion('k8s.io/kubernetes');
/** By itself and not in the wrapper module: it needs newer versions of what Kubernetes needs too. */
const containerdVersion = 'v2.4.2';

interface Source {
  /** A package of the wrapper module, or one with a version of its own, after an @. */
  readonly package: string;
  /** From an empty cache on two cores, in the order of the table. */
  readonly seconds: number;
  /** Its tests are the program. */
  readonly isTest?: true;
}

const containerd = 'github.com/containerd/containerd/v2/cmd';
const csi = 'github.com/kubernetes-csi';

/** Whatever a cluster needs that Debian does not have, in the order in which it is built. */
const sources = {
  etcd: { package: 'go.etcd.io/etcd/server/v3', seconds: 48 },
  'kube-apiserver': { package: 'k8s.io/kubernetes/cmd/kube-apiserver', seconds: 322 },
  kubectl: { package: 'k8s.io/kubernetes/cmd/kubectl', seconds: 37 },
  'kube-controller-manager': { package: 'k8s.io/kubernetes/cmd/kube-controller-manager', seconds: 113 },
  'kube-scheduler': { package: 'k8s.io/kubernetes/cmd/kube-scheduler', seconds: 8 },
  kubelet: { package: 'k8s.io/kubernetes/cmd/kubelet', seconds: 26 },
  containerd: { package: `${containerd}/containerd@${containerdVersion}`, seconds: 80 },
  'containerd-shim-runc-v2': { package: `${containerd}/containerd-shim-runc-v2@${containerdVersion}`, seconds: 10 },
  ctr: { package: `${containerd}/ctr@${containerdVersion}`, seconds: 10 },
  'csi-provisioner': { package: `${csi}/external-provisioner/v6/cmd/csi-provisioner`, seconds: 20 },
  'csi-resizer': { package: `${csi}/external-resizer/v2/cmd/csi-resizer`, seconds: 10 },
  'csi-snapshotter': { package: `${csi}/external-snapshotter/v8/cmd/csi-snapshotter`, seconds: 15 },
  'csi-attacher': { package: `${csi}/external-attacher/v4/cmd/csi-attacher`, seconds: 15 },
  'snapshot-controller': { package: `${csi}/external-snapshotter/v8/cmd/snapshot-controller`, seconds: 10 },
  agnhost: { package: 'k8s.io/kubernetes/test/images/agnhost', seconds: 10 },
  ginkgo: { package: 'github.com/onsi/ginkgo/v2/ginkgo', seconds: 6 },
  'e2e.test': { package: 'k8s.io/kubernetes/test/e2e', seconds: 269, isTest: true },
} satisfies Record<string, Source>;

/** A program that is built from Go modules. */
export type Program = keyof typeof sources;

/** What validates manifests: an API server, its database, and the way to talk to it. */
export const apiServerPrograms: readonly Program[] = ['etcd', 'kube-apiserver', 'kubectl'];

/** What runs pods that use volumes. */
export const clusterPrograms: readonly Program[] = [
  ...apiServerPrograms,
  'kube-controller-manager',
  'kube-scheduler',
  'kubelet',
  'containerd',
  'containerd-shim-runc-v2',
  'ctr',
  'csi-provisioner',
  'csi-resizer',
  'csi-snapshotter',
  'snapshot-controller',
];

/** What serves volumes that nodes reach over a network besides. */
export const networkPrograms: readonly Program[] = ['csi-attacher'];

/** What Kubernetes' own suite needs besides. */
export const suitePrograms: readonly Program[] = ['agnhost', 'ginkgo', 'e2e.test'];

/** Where the programs of these very versions are kept, outside the tree. */
function programDirectory(): string {
  const cache = process.env['XDG_CACHE_HOME'] || join(homedir(), '.cache');
  const versions = createHash('sha256').update(moduleText).update(JSON.stringify(sources)).digest('hex').slice(0, 12);
  return join(cache, 'holdfast', 'cluster', `${kubernetesVersion}-${versions}`);
}

/** Builds what is not there yet, and says how long it takes. The directory with the programs, by their names. */
export async function buildPrograms(wanted: readonly Program[]): Promise<string> {
  const directory = programDirectory();
  mkdirSync(directory, { recursive: true });
  const missing = wanted.filter((name) => !existsSync(join(directory, name)));
  const minutes = Math.ceil(missing.reduce((sum, name) => sum + sources[name].seconds, 0) / 60);
  if (missing.length > 0)
    say(`${missing.length} programs into ${directory}: about ${minutes} min from an empty cache, once`);
  for (const name of missing) {
    const startedMs = performance.now();
    await build(name, sources[name], directory);
    say(`${name} ${((performance.now() - startedMs) / 1000).toFixed(0)} s`);
  }
  return directory;
}

/** The directory of a module that go/go.mod requires, as Go has unpacked it: no program may have needed it so far. */
export async function moduleSource(module: string): Promise<string> {
  await go(['mod', 'download', module]);
  return (await go(['list', '-mod=readonly', '-m', '-f', '{{.Dir}}', module])).trim();
}

async function build(name: Program, source: Source, directory: string): Promise<void> {
  const version = 'k8s.io/component-base/version';
  const [major = '', minor = ''] = kubernetesVersion.slice(1).split('.');
  const variables = { gitVersion: kubernetesVersion, gitMajor: major, gitMinor: minor, gitTreeState: 'clean' };
  const linker = ['-s', '-w', ...Object.entries(variables).map(([key, value]) => `-X ${version}.${key}=${value}`)];
  const flags = ['-trimpath', '-ldflags', linker.join(' ')];
  const output = join(directory, name);
  if (source.package.includes('@')) {
    // It is written in one go, as `go build -o` is not: so a build that was killed leaves nothing that looks done.
    await go(['install', ...flags, source.package], { GOBIN: directory });
    return;
  }
  const half = `${output}.${process.pid}`;
  const verb = source.isTest === true ? ['test', '-c', '-vet=off'] : ['build'];
  await go([...verb, '-mod=readonly', ...flags, '-o', half, source.package]);
  renameSync(half, output);
}

async function go(parameters: readonly string[], environment: Readonly<Record<string, string>> = {}): Promise<string> {
  // Low priority: it is long, and nobody wants to wait with a slow machine. Static: some run in images without a libc.
  const env = { ...process.env, CGO_ENABLED: '0', ...environment };
  try {
    return await runToEnd('nice', ['-n', '10', 'go', ...parameters], { cwd: moduleDirectory, env });
  } catch (error) {
    if (!(error instanceof Error) || !error.message.includes('No such file or directory')) throw error;
    throw new Error('Go is not installed: building Kubernetes needs 1.26 or newer, from https://go.dev/dl.');
  }
}

function say(line: string): void {
  console.error(`cluster: building ${line}`);
}
