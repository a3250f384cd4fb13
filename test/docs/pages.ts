import { type Page, readPage } from './page.ts';

/** In the order in which they are tried: what one makes, the next ones find. */
export const pages: readonly Page[] = [
  readPage('README.md', 'docs/guides/README.md'),
  readPage('docs/install.md'),
  ...[
    ...['guides/monitoring', 'guides/upgrade', 'guides/backup', 'guides/copy-claim', 'migrate'],
    ...['guides/velero', 'guides/air-gapped', 'guides/uninstall'],
    ...['kind', 'minikube', 'k3s', 'microk8s', 'talos', 'openshift'].map((name) => `guides/${name}`),
  ].map((name) => readPage(`docs/${name}.md`)),
];

const skopeo = 'skopeo copy --all docker://registry.k8s.io/sig-storage/';

/** What cannot be run on one machine with nothing but Kubernetes. Each page says the same of itself. */
export const cannotRun: Readonly<Record<string, 'all' | readonly string[]>> = {
  // Takes most of an hour, and is CI itself; stays in the foreground; a summary of what can be typed.
  'README.md': [
    'npm test',
    'CSI_ENDPOINT=unix:///run/holdfast/csi.sock node dist/holdfast.mjs serve',
    'holdfast config check FILE',
    'holdfast doctor',
    'holdfast pools',
    'holdfast volumes [ID]',
    'holdfast snapshots',
    'holdfast disks',
    'holdfast export [ID]',
    'holdfast trash',
    'holdfast trash restore ID',
    'holdfast trash purge [ID]',
    'holdfast who ID',
  ],
  // Want a registry, another distribution, or an installation by Helm.
  'docs/install.md': [
    'VERSION=0.2.0',
    'skopeo copy oci-archive:holdfast.tar docker://registry.example.org/holdfast:$VERSION',
    'kustomize edit set image localhost/holdfast=registry.example.org/holdfast:$VERSION',
    'helm install … --set kubeletDir=/var/lib/k0s/kubelet',
    "kubectl kustomize deploy | sed 's#/var/lib/kubelet#/var/lib/k0s/kubelet#g' | kubectl apply -f -",
    'helm install … --set inlineVolumes=true --set config.maxInlineSize=50Gi',
    'helm upgrade holdfast deploy/charts/holdfast --namespace holdfast-system --rollback-on-failure',
    'helm rollback holdfast --namespace holdfast-system',
  ],
  // Wants the kinds of the Prometheus operator.
  'docs/guides/monitoring.md': [
    'kubectl apply -k deploy/monitoring',
    [
      'helm upgrade holdfast deploy/charts/holdfast --namespace holdfast-system --reuse-values',
      '--set monitoring.podMonitor.enabled=true --set monitoring.podMonitor.labels.release=prometheus',
      '--set monitoring.alerts.enabled=true --set monitoring.alerts.labels.release=prometheus',
      '--set monitoring.dashboard.enabled=true',
    ].join(' '),
  ],
  // Installed with kubectl, it cannot be upgraded with Helm.
  'docs/guides/upgrade.md': [
    'helm upgrade holdfast deploy/charts/holdfast --namespace holdfast-system --rollback-on-failure',
    'helm rollback holdfast --namespace holdfast-system',
  ],
  'docs/guides/backup.md': [],
  // Wants the other driver.
  'docs/guides/copy-claim.md': [
    `kubectl patch $(kubectl get pv -l copy=default.data-wiki-0.old -o name) -p '{"spec":{"persistentVolumeReclaimPolicy":"Delete"}}'`,
  ],
  // In the driver's container, of a path that the reader chooses.
  'docs/migrate.md': [
    'holdfast adopt /srv/legacy/db --pool plain --claim shop/db --class plain --retain | kubectl apply -f -',
  ],
  // Wants Velero, and somewhere to keep backups.
  'docs/guides/velero.md': [
    'velero backup create notes --include-namespaces default --snapshot-move-data --wait',
    'velero restore create --from-backup notes',
  ],
  // Want a registry, and the internet.
  'docs/guides/air-gapped.md': [
    'skopeo copy oci-archive:holdfast.tar docker://registry.example.org/holdfast:0.2.0',
    `${skopeo}csi-provisioner:v6.3.0 docker://registry.example.org/csi-provisioner:v6.3.0`,
    `${skopeo}csi-snapshotter:v8.7.0 docker://registry.example.org/csi-snapshotter:v8.7.0`,
    `${skopeo}csi-resizer:v2.3.0 docker://registry.example.org/csi-resizer:v2.3.0`,
  ],
  // Would remove the machine's own data.
  'docs/guides/uninstall.md': [
    'umount /var/lib/holdfast/pools/default',
    'rm -r /var/lib/holdfast',
    'wipefs --all /dev/nvme1n1',
  ],
  // Other distributions.
  'docs/guides/kind.md': 'all',
  'docs/guides/minikube.md': 'all',
  'docs/guides/k3s.md': 'all',
  'docs/guides/microk8s.md': 'all',
  'docs/guides/talos.md': 'all',
  'docs/guides/openshift.md': 'all',
};

/** The commands of a page that can be run here. */
export function runnable({ commands, file }: Page): readonly string[] {
  const out = cannotRun[file] ?? 'all';
  return out === 'all' ? [] : commands.filter((command) => !out.includes(command));
}
