import { type Page, readPage } from './page.ts';

/** In the order in which they are tried: what one makes, the next ones find. */
export const pages: readonly Page[] = [
  ...['README', 'docs/install'],
  ...[
    'guides/monitoring',
    'guides/upgrade',
    'guides/backup',
    'guides/backup-to-s3',
    'guides/node-maintenance',
    'guides/copy-claim',
    'migrate',
  ].map((name) => `docs/${name}`),
  ...['guides/velero', 'guides/air-gapped', 'production', 'guides/uninstall'].map((name) => `docs/${name}`),
  ...['choose', 'faq', 'cli', 'guides/move-a-disk', 'guides/databases', 'guides/gitops'].map((name) => `docs/${name}`),
  ...['kind', 'minikube', 'k3s', 'microk8s', 'talos', 'openshift'].map((name) => `docs/guides/${name}`),
].map((name) => readPage(`${name}.md`));

/** Commands that cannot be typed on one machine with nothing but Kubernetes, and why. */
export interface Untyped {
  readonly why: string;
  readonly commands: 'all' | readonly string[];
}

const skopeo = 'skopeo copy --all docker://registry.k8s.io/sig-storage/';
const otherDistribution = (why: string): Untyped => ({ why, commands: 'all' });

export const cannotRun: Readonly<Record<string, Untyped>> = {
  'README.md': { why: '', commands: [] },
  'docs/install.md': {
    why: 'a registry, another distribution, or an installation with Helm',
    commands: [
      'VERSION=0.2.0',
      'skopeo copy oci-archive:holdfast.tar docker://registry.example.org/holdfast:$VERSION',
      'kustomize edit set image localhost/holdfast=registry.example.org/holdfast:$VERSION',
      'helm install … --set kubeletDir=/var/lib/k0s/kubelet',
      "kubectl kustomize deploy | sed 's#/var/lib/kubelet#/var/lib/k0s/kubelet#g' | kubectl apply -f -",
      'helm install … --set inlineVolumes=true --set config.maxInlineSize=50Gi',
      'helm upgrade holdfast deploy/charts/holdfast --namespace holdfast-system --rollback-on-failure',
      'helm rollback holdfast --namespace holdfast-system',
    ],
  },
  'docs/guides/monitoring.md': {
    why: 'the Prometheus operator',
    commands: [
      'kubectl apply -k deploy/monitoring',
      'kubectl apply -k deploy/fleet/monitoring',
      [
        'helm upgrade holdfast deploy/charts/holdfast --namespace holdfast-system --reuse-values',
        '--set monitoring.podMonitor.enabled=true --set monitoring.podMonitor.labels.release=prometheus',
        '--set monitoring.alerts.enabled=true --set monitoring.alerts.labels.release=prometheus',
        '--set monitoring.dashboard.enabled=true',
      ].join(' '),
    ],
  },
  'docs/guides/upgrade.md': {
    why: 'an installation with Helm, which `npm run test:cluster -- helm` has',
    commands: [
      'helm upgrade holdfast deploy/charts/holdfast --namespace holdfast-system --rollback-on-failure',
      'helm rollback holdfast --namespace holdfast-system',
    ],
  },
  'docs/guides/backup.md': { why: '', commands: [] },
  'docs/guides/backup-to-s3.md': { why: '', commands: [] },
  'docs/guides/copy-claim.md': {
    why: 'TopoLVM or OpenEBS; a volume of the type `local` stands for theirs',
    commands: [
      `kubectl patch $(kubectl get pv -l copy=default.data-wiki-0.old -o name) -p '{"spec":{"persistentVolumeReclaimPolicy":"Delete"}}'`,
    ],
  },
  'docs/migrate.md': {
    why: 'a path that the reader chooses; local-path-provisioner itself was not there, a volume with its name and class was',
    commands: [
      'holdfast adopt /srv/legacy/db --pool plain --claim shop/db --class plain --retain | kubectl apply -f -',
    ],
  },
  'docs/guides/velero.md': {
    why: 'Velero, and a store for its backups',
    commands: [
      'velero backup create notes --include-namespaces default --snapshot-move-data --wait',
      'velero restore create --from-backup notes',
    ],
  },
  'docs/guides/air-gapped.md': {
    why: 'a registry, and the internet',
    commands: [
      'skopeo copy oci-archive:holdfast.tar docker://registry.example.org/holdfast:0.2.0',
      `${skopeo}csi-provisioner:v6.3.0 docker://registry.example.org/csi-provisioner:v6.3.0`,
      `${skopeo}csi-snapshotter:v8.7.0 docker://registry.example.org/csi-snapshotter:v8.7.0`,
      `${skopeo}csi-resizer:v2.3.0 docker://registry.example.org/csi-resizer:v2.3.0`,
    ],
  },
  'docs/guides/uninstall.md': {
    why: "a node to give up: they would remove this machine's own data",
    commands: ['umount /var/lib/holdfast/pools/default', 'rm -r /var/lib/holdfast', 'wipefs --all /dev/nvme1n1'],
  },
  'docs/choose.md': { why: '', commands: [] },
  'docs/production.md': {
    why: 'a registry, the internet, nodes with NVMe disks, the Prometheus operator; the values are rendered by a test',
    commands: [
      'npm run image -- --push registry.example.org',
      'kubectl apply -k "https://github.com/kubernetes-csi/external-snapshotter/client/config/crd?ref=v8.7.0"',
      'kubectl apply -k "https://github.com/kubernetes-csi/external-snapshotter/deploy/kubernetes/snapshot-controller?ref=v8.7.0"',
      'kubectl create namespace holdfast-system',
      'kubectl label namespace holdfast-system pod-security.kubernetes.io/enforce=privileged',
      'helm install holdfast deploy/charts/holdfast --namespace holdfast-system --values deploy/examples/values/production.yaml',
    ],
  },
  'docs/faq.md': { why: '', commands: [] },
  'docs/cli.md': {
    why: 'a summary; each command has tests (`test/cli`). The driver stays in the foreground',
    commands: 'all',
  },
  'docs/guides/node-maintenance.md': { why: '', commands: [] },
  'docs/guides/move-a-disk.md': { why: 'two nodes and a disk that moves', commands: 'all' },
  'docs/guides/databases.md': { why: '', commands: [] },
  'docs/guides/gitops.md': { why: '', commands: [] },
  'docs/guides/kind.md': otherDistribution('a container engine'),
  'docs/guides/minikube.md': otherDistribution('minikube'),
  'docs/guides/k3s.md': otherDistribution('k3s'),
  'docs/guides/microk8s.md': otherDistribution('MicroK8s'),
  'docs/guides/talos.md': otherDistribution('Talos'),
  'docs/guides/openshift.md': otherDistribution('OpenShift'),
};

/** The commands of a page that cannot be typed here. */
export function untyped({ commands, file }: Page): readonly string[] {
  const out = cannotRun[file]?.commands ?? 'all';
  return out === 'all' ? commands : out;
}

/** The commands of a page that can be run here. */
export function runnable(page: Page): readonly string[] {
  const out = untyped(page);
  return page.commands.filter((command) => !out.includes(command));
}
