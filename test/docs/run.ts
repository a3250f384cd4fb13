/* What is not the reader's to do is done before: the programs are there, and the images that a registry would have. */
import { existsSync, mkdirSync, readdirSync, rmdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Usage } from '../../scripts/options.ts';
import { runToEnd } from '../cluster/harness/command.ts';
import { makeDebianImage } from '../cluster/harness/debian.ts';
import { Fleet } from '../cluster/harness/fleet/fleet.ts';
import { fleetNetwork } from '../cluster/harness/fleet/network.ts';
import { images, sidecarImage, sidecars } from '../cluster/harness/images.ts';
import { buildPrograms, clusterPrograms } from '../cluster/harness/programs.ts';
import { waitFor } from '../cluster/harness/waiting.ts';
import { Helm } from '../deploy/helm.ts';
import { LocalPath, localPathDirectory } from './local-path.ts';
import { pages, runnable } from './pages.ts';
import { Peer } from './peer.ts';
import { S3Server, s3Name } from './s3.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));

/** What a page says is to be seen, and takes a moment. */
const seen: Readonly<Record<string, readonly RegExp[]>> = {
  'kubectl get pvc,pod notes': [/persistentvolumeclaim\/notes\s+Bound/, /pod\/notes\s+1\/1\s+Running/],
  'kubectl get pv': [/No resources found|^$/],
  'kubectl get storageclass holdfast-xfs': [/holdfast\.csi\.dev/],
  'kubectl exec notes-restored -- cat /notes/starts': [/20\d\d/],
  'kubectl -n holdfast-system get pods': [/holdfast-\S+\s+1\/1\s+Running/, /holdfast-controller-\S+\s+4\/4\s+Running/],
  'kubectl logs job/backup-now': [/snapshot [0-9a-f]+ saved/, /no errors were found/],
  'kubectl logs job/restore-notes': [/20\d\d/],
  'kubectl holdfast disks': [/^node-a:$/m, /^node-c:$/m],
  'kubectl holdfast pools': [/node-b\s+default/],
  'kubectl get csistoragecapacities -A -o custom-columns=CLASS:.storageClassName,CAPACITY:.capacity,NODE:.nodeTopology.matchLabels':
    [/holdfast-xfs\s+\d+\S*\s+map\[topology\.holdfast\.dev\/node:/],
  "kubectl get pv -l adopt=shop.data-db-0 -o jsonpath='{.items[0].spec.hostPath.path}{.items[0].spec.local.path}'": [
    /^\/opt\/local-path-provisioner\/pvc-1_shop_data-db-0$/,
  ],
  'kubectl logs job/copy-claim': [/^the copy is the same: \d+ names, 4 files$/m],
  "kubectl get pvc data-wiki-0 -o jsonpath='{.spec.volumeName}'": [/^peer$/],
};

const installed =
  'kubectl -n holdfast-system rollout status deployment/holdfast-controller --timeout=300s && kubectl -n holdfast-system rollout status daemonset/holdfast --timeout=300s';
const withHelm = [
  'kubectl create namespace holdfast-system',
  'kubectl label namespace holdfast-system pod-security.kubernetes.io/enforce=privileged',
  'helm install holdfast deploy/charts/holdfast --namespace holdfast-system',
  installed,
];
const withKubectlAgain = [
  'helm uninstall holdfast --namespace holdfast-system',
  'kubectl delete namespace holdfast-system',
  'kubectl apply -k deploy',
  installed,
];
const [addPlainPool = ''] = commandsOf('docs/migrate.md');

/** Where a page has two ways of doing a thing, the first one is undone before the second. */
const before: Readonly<Record<string, readonly string[]>> = {
  'kubectl create namespace holdfast-system': ['kubectl delete pod notes', 'kubectl delete -k deploy'],
  [addPlainPool]: ['kubectl delete -k deploy', ...withHelm],
  // As for a new installation: what is there of the object cannot be changed.
  'kubectl apply -k deploy/inline-volumes': ['kubectl delete csidriver holdfast.csi.dev --ignore-not-found'],
  // The guide before it has removed what it made.
  'kubectl delete pod notes --ignore-not-found': [
    'kubectl apply -f deploy/examples/claim-and-pod.yaml',
    'kubectl wait --for=condition=Ready pod/notes --timeout=300s',
  ],
};
const after: Readonly<Record<string, readonly string[]>> = {
  'kubectl apply -k deploy/inline-volumes': [
    installed,
    'kubectl apply -f deploy/examples/inline/scratch.yaml',
    'kubectl wait --for=condition=Ready pod/scratch --timeout=300s',
    'kubectl delete pod scratch',
    'kubectl delete csidriver holdfast.csi.dev',
    'kubectl apply -k deploy',
  ],
  'helm install holdfast deploy/charts/holdfast --namespace holdfast-system': [
    installed,
    'helm test holdfast --namespace holdfast-system --timeout 300s',
    'kubectl apply -f deploy/examples/claim-and-pod.yaml',
    'kubectl wait --for=condition=Ready pod/notes --timeout=300s',
    'kubectl delete pod notes',
    ...withKubectlAgain,
  ],
  'kubectl delete pv adopted.shop.data-db-0': withKubectlAgain,
};

const usage =
  new Usage(`Types the commands of README and the guides, as they stand there, on a real Kubernetes of three nodes. As root:
npm run test:docs -- [word]...
With words: only of the pages that have one of them in their names; README installs what the others use.
`);
const { positionals: words } = usage.read({ allowPositionals: true });
const wanted = pages.filter(({ file }) => words.length === 0 || words.some((word) => file.includes(word)));
usage.requireKnown(words, (word) => pages.some(({ file }) => file.includes(word)), 'no page has this word in its name');

/** What each node has for itself at these paths, as the pages name them. */
const [dataDirectory, localPathHome] = ['/var/lib/holdfast', localPathDirectory];
const madeDirectories = [dataDirectory, localPathHome].filter((path) => {
  if (existsSync(path) && readdirSync(path).length > 0)
    throw new Error(`${path} is not empty: this machine has a driver`);
  return mkdirSync(path, { recursive: true }) !== undefined;
});
process.once('exit', () => {
  for (const path of madeDirectories) rmdirSync(path);
});
await using fleet = await Fleet.start({
  dataDirectory,
  shared: [localPathHome],
  names: { [s3Name]: fleetNetwork.nameServer },
});
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => void fleet[Symbol.asyncDispose]().finally(() => process.exit(1)));
}
const helm = await Helm.build();
const programs = await buildPrograms(clusterPrograms);
const [first] = fleet.nodes;
if (first === undefined) throw new Error('there is no node');
const environment = {
  ...process.env,
  KUBECONFIG: fleet.kubeconfig,
  CONTAINERD_ADDRESS: first.runtime.socket,
  PATH: `${programs}:${helm.directory}:${join(root, 'deploy/kubectl')}:${process.env['PATH']}`,
};
await using store = await S3Server.start(fleet.makeDirectory('s3'), fleetNetwork.nameServer);
const archives = fleet.makeDirectory('more-images');
for (const archive of [await makeDebianImage(archives, 'docker.io/library/debian:12'), await store.image(archives)]) {
  await fleet.importImage(archive);
}
for (const { runtime } of fleet.nodes) {
  for (const name of sidecars) {
    const [version] = (await type(`grep -oh '${name}:v[0-9.]*' deploy/base/daemon-set.yaml`)).split('\n');
    await runtime.ctr(['images', 'tag', sidecarImage(name), `registry.k8s.io/sig-storage/${version}`]);
  }
  await runtime.ctr(['images', 'tag', images.busybox, 'docker.io/library/busybox:1.37']);
}

/** What the guides that copy a claim, and adopt one, find and leave. */
const peer = new Peer(fleet.makeDirectory('peer'), fleet.kubectl, first);
const volumeOfWiki = "$(kubectl get pvc data-wiki-0 -o jsonpath='{.spec.volumeName}')";
const deletedWithItsClaim = `'{"spec":{"persistentVolumeReclaimPolicy":"Delete"}}'`;
const localPath = new LocalPath(fleet.kubectl);
const volumeOfDb = "$(kubectl -n shop get pvc data-db-0 -o jsonpath='{.spec.volumeName}')";
const inDriver = 'kubectl -n holdfast-system exec daemonset/holdfast -- holdfast';
const deedsBefore = new Map([
  [`kubectl label pv ${volumeOfWiki} copy=default.data-wiki-0.old`, () => peer.make()],
  [`kubectl label pv ${volumeOfDb} adopt=shop.data-db-0`, async () => localPath.make(await nodeOfDriver())],
]);
const makeImage = commandsOf('README.md').find((command) => command.startsWith('npm run image')) ?? '';
const deedsAfter = new Map([
  // On the other nodes, as the page says.
  [makeImage, () => fleet.importImage(join(root, '.cache/image/holdfast.tar'))],
  [`${inDriver} volumes shop/data-db-0`, () => localPath.compareAdopted()],
  [`${inDriver} release shop/data-db-0`, async () => localPath.compareReleased()],
  ['kubectl delete pv adopted.shop.data-db-0', () => localPath.removeObjects()],
  ['kubectl get pv -L copy', () => peer.compare()],
  [
    `kubectl patch $(kubectl get pv -l copy=default.data-wiki-0.new -o name) -p ${deletedWithItsClaim}`,
    () => peer.remove(),
  ],
]);

/** What takes minutes and makes the same again, on whichever page it stands. */
const onceEnough = new Set(['npm run image', makeImage]);
const typed = new Set<string>();
let count = 0;
try {
  for (const page of wanted) {
    for (const command of runnable(page)) {
      if (onceEnough.has(command) && typed.has(command)) continue;
      typed.add(command);
      for (const extra of before[command] ?? []) await type(extra);
      console.log(`${page.file}: ${command}`);
      await deedsBefore.get(command)?.();
      await follow(command);
      await deedsAfter.get(command)?.();
      for (const extra of after[command] ?? []) await type(extra);
      count += 1;
    }
  }
  console.log(
    `docs: ${count} commands of ${wanted.filter((page) => runnable(page).length > 0).length} pages were run, 0 failed`,
  );
} catch (error) {
  console.error(`docs: FAILED after ${count} commands: ${error instanceof Error ? error.message : String(error)}`);
  console.error(await type('kubectl get pods,pvc,events -A').catch(String));
  process.exitCode = 1;
} finally {
  // As the pages name them.
  for (const path of ['/tmp/notes.tar', '/tmp/pv.yaml']) rmSync(path, { force: true });
  rmSync('/usr/local/bin/kubectl-holdfast', { force: true });
}

/** The one whose container `kubectl exec daemonset/holdfast` enters. */
async function nodeOfDriver() {
  const [, name = ''] = /^HOLDFAST_NODE_ID=(.*)$/m.exec(await type(`${inDriver.replace(/holdfast$/, 'env')}`)) ?? [];
  return fleet.node(name);
}

function commandsOf(name: string): readonly string[] {
  return pages.find(({ file }) => file === name)?.commands ?? [];
}

/** Types it; until what it says is what the page says, if the page says something. */
async function follow(command: string): Promise<void> {
  const expected = seen[command];
  if (expected === undefined) {
    await type(command);
    return;
  }
  await waitFor(command, async () => {
    const text = await type(command);
    for (const each of expected) if (!each.test(text)) throw new Error(`it says: ${text}`);
  });
}

function type(command: string): Promise<string> {
  return runToEnd('bash', ['-eo', 'pipefail', '-c', command], { cwd: root, env: environment, timeoutMs: 600_000 });
}
