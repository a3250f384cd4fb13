import type { Values } from './helm.ts';

const byPath = '/dev/disk/by-path/pci-0000:01:00.0-nvme-1';
const controller = { enabled: true };
/** As external-provisioner has it: not of JavaScript. */
const claimName = '$' + '{pvc.name}';
const secretOf = (call: string, name = 'volume-key') => ({
  [`csi.storage.k8s.io/${call}-secret-name`]: name,
  [`csi.storage.k8s.io/${call}-secret-namespace`]: 'holdfast-system',
});
const encrypted = {
  name: 'holdfast-encrypted',
  parameters: { encryption: 'luks2', ...secretOf('provisioner'), ...secretOf('node-stage') },
};
const nvme = { pools: { default: { device: byPath } } };
const plain = { kind: 'directory', path: '/srv/plain/pool' };

/** Values that users write. */
export const usualValues: Readonly<Record<string, Values>> = {
  'nothing at all': {},
  'the LVM of the image, without the processes of the node': {
    hostPID: false,
    config: { pools: { default: { kind: 'lvm', volumeGroup: 'v' } } },
  },
  'a key in the data directory, and one beside a pool': {
    poolDirectories: ['/srv/keys'],
    config: {
      defaultPool: 'one',
      pools: {
        one: { device: byPath, encryption: { keyFile: '/var/lib/holdfast/keys/one' } },
        two: { device: `${byPath}-part1`, encryption: { keyFile: '/srv/keys/two' } },
      },
    },
  },
  'a class for one disk of many that match': {
    config: { pools: { default: {}, big: { kind: 'disk', match: { size: { minimum: '1Ti' } } } } },
    storageClasses: [{ name: 'one-disk', parameters: { pool: 'big-v8g6a1b-k3x7q2' } }],
  },
  'an NVMe disk in the same slot of each node': { config: nvme },
  'the NVMe disk of each node, by a match': {
    config: { pools: { default: { match: { bus: 'nvme', size: { minimum: '1Ti' } } } } },
  },
  'a volume group on the SSD of each node, by a match': {
    config: { pools: { default: {}, fast: { kind: 'lvm', match: { model: 'MZQL2*', rotational: false } } } },
  },
  'an NVMe disk by its serial number, node by node': {
    config: {
      nodes: Object.fromEntries(
        ['a', 'b'].map((node) => [
          `node-${node}`,
          { pools: { default: { device: `/dev/disk/by-id/nvme-S64G${node}` } } },
        ]),
      ),
    },
  },
  'production: encrypted, snapshots, groups, attributes, network policy, dashboard': {
    controller: { events: true, taintQuarantine: 'PreferNoSchedule' },
    config: { pools: { default: { device: byPath, undelete: '24h' } } },
    storageClasses: [
      { name: 'holdfast', default: true },
      { ...encrypted, reclaimPolicy: 'Retain' },
    ],
    snapshotClasses: { enabled: true, groups: true },
    volumeAttributesClasses: [{ name: 'thick', parameters: { provisioning: 'thick' } }],
    networkPolicy: { enabled: true },
    monitoring: { dashboard: { enabled: true } },
  },
  MicroK8s: { kubeletDir: '/var/snap/microk8s/common/var/lib/kubelet' },
  k0s: { kubeletDir: '/var/lib/k0s/kubelet', controller },
  'two groups of nodes': {
    nodeGroupLabel: 'node.kubernetes.io/instance-type',
    nodeGroups: { nvme: { values: ['i4i.large', 'i4i.xlarge'], config: nvme }, plain: { config: {} } },
  },
  'a pool of directories': {
    poolDirectories: ['/srv/plain'],
    config: { pools: { default: plain } },
    storageClasses: [{ name: 'holdfast' }],
  },
  'directories beside images, for adoption': {
    poolDirectories: ['/opt/local-path-provisioner'],
    config: {
      pools: {
        default: {},
        plain: { kind: 'directory', path: '/opt/local-path-provisioner/holdfast', systemDisk: 'allow' },
      },
    },
  },
  'a key file': {
    keyDirectories: ['/run/keys'],
    config: { pools: { default: { device: byPath, encryption: { keyFile: '/run/keys/holdfast' } } } },
    storageClasses: [{ name: 'holdfast', default: true, parameters: { encryption: 'luks2' } }],
  },
  'a Secret for each claim': {
    storageClasses: [
      {
        name: 'by-claim',
        parameters: {
          encryption: 'luks2',
          ...secretOf('provisioner', claimName),
          ...secretOf('node-stage', claimName),
        },
      },
    ],
  },
  'one node, with groups of snapshots': { oneNode: true, snapshotClasses: { enabled: true, groups: true } },
  'inline volumes': { inlineVolumes: true, config: { maxInlineSize: '1.5Gi' } },
  'a private registry, by digest': {
    image: { repository: 'registry.example.org:5000/storage/holdfast', digest: `sha256:${'a'.repeat(64)}` },
    imagePullSecrets: [{ name: 'registry' }],
  },
  'a volume group, with a class for each layout': {
    config: { pools: { default: { kind: 'lvm', volumeGroup: 'vg0', wipe: 'discard' } } },
    storageClasses: ['linear', 'striped', 'raid1'].map((layout) => ({ name: layout, parameters: { layout } })),
  },
  'a thin pool': { config: { pools: { default: { kind: 'lvm', volumeGroup: 'vg0', thinPool: { size: '1.5Ti' } } } } },
  'whole disks for Kafka, by model and size': {
    controller,
    config: {
      pools: {
        default: {},
        kafka: { kind: 'disk', match: { model: 'MZQL2*', size: { minimum: '1.7T' }, bus: 'nvme' } },
      },
    },
    storageClasses: [
      { name: 'kafka', reclaimPolicy: 'Retain', mountOptions: ['noatime'], parameters: { pool: 'kafka' } },
    ],
  },
  'classes by the labels of pools': {
    config: {
      pools: { fast: { device: byPath, labels: { media: 'nvme' } }, slow: { labels: { media: 'hdd' } } },
      defaultPool: 'slow',
    },
    storageClasses: [{ name: 'fast', parameters: { poolSelector: 'media=nvme', undelete: '7d' } }],
  },
  'fewer nodes, tolerations, own resources': {
    nodeSelector: { 'kubernetes.io/os': 'linux', storage: 'local' },
    tolerations: [{ key: 'storage', operator: 'Exists' }],
    resources: { requests: { cpu: '100m', memory: '128Mi' }, limits: { memory: '2Gi' } },
    podLabels: { team: 'storage' },
  },
  'GKE: a quota for the priority class': { priorityQuota: true, controller },
  'without metrics': { monitoring: { port: 0 } },
};

/** Values that cannot work, and the one sentence that says why. */
export const brokenValues: readonly (readonly [
  what: string,
  values: Values,
  sentence: string,
  kubeVersion?: string,
])[] = [
  [
    'a unit that is none',
    pool({ size: '10GB' }),
    "config.pools.default.size: '10GB' is not a size (did you mean 10G?): write a number with a unit, such as 10Gi or 500M",
  ],
  [
    'a share of the disk',
    pool({ size: '80%' }),
    "config.pools.default.size: '80%' is not a size: write a number with a unit, such as 10Gi or 500M",
  ],
  [
    'a pool that is too small',
    pool({ size: '100Mi' }),
    "config.pools.default.size: must be at least 300Mi, not '100Mi'",
  ],
  [
    'a limit of inline volumes in another unit',
    { config: { maxInlineSize: '50GB' } },
    "config.maxInlineSize: '50GB' is not a size (did you mean 50G?): write a number with a unit, such as 10Gi or 500M",
  ],
  [
    'a thin pool in another unit',
    pool({ kind: 'lvm', volumeGroup: 'vg0', thinPool: { size: '500GB' } }),
    "config.pools.default.thinPool.size: '500GB' is not a size (did you mean 500G?): write a number with a unit, such as 10Gi or 500M",
  ],
  [
    'a duration in words',
    oneClass({ undelete: '1week' }),
    "storageClasses: class a: undelete: '1week' is not a duration: write a whole number with s, m, h or d, such as 24h",
  ],
  [
    'a duration beyond its bounds',
    pool({ sickAfter: '2h' }),
    "config.pools.default.sickAfter: must be 1s to 1h, not '2h'",
  ],
  [
    'a reserve as large as its pool',
    pool({ size: '1Gi', reserve: '1Gi' }),
    'config.pools.default.reserve: must be less than the size of the pool, 1Gi',
  ],
  [
    'two places for a pool',
    pool({ device: '/dev/sdb', file: '/var/lib/holdfast/a.img' }),
    'config.pools.default: set only one of device, file',
  ],
  [
    'a size of a disk',
    pool({ device: '/dev/sdb', size: '10Gi' }),
    'config.pools.default.size: only a backing file has a size; a directory or a device has the size of its disk',
  ],
  [
    'directories that are nowhere',
    pool({ kind: 'directory' }),
    'config.pools.default: needs a path: the directory for its volumes',
  ],
  [
    'logical volumes that are nowhere',
    pool({ kind: 'lvm' }),
    'config.pools.default: needs a volumeGroup for its volumes, or devices or a match to make one of',
  ],
  [
    'a disk that is nowhere',
    pool({ kind: 'disk' }),
    'config.pools.default: needs a device, the disk that becomes its volume; or match, for all disks of one sort',
  ],
  [
    'wipe with a thin pool',
    pool({ kind: 'lvm', volumeGroup: 'v', thinPool: { size: '1Gi' }, wipe: 'zero' }),
    'config.pools.default.wipe: cannot be set with a thinPool: blocks of thin volumes that were never written are zeros',
  ],
  [
    'several pools without a default',
    { config: { pools: { fast: { device: '/dev/sdb' }, slow: {} } } },
    'config.defaultPool: set it to one of the pools (fast, slow), because none of them is called default',
  ],
  [
    'a default that there is not',
    { config: { defaultPool: 'fast' } },
    "config.defaultPool: there is no pool 'fast'; there is default",
  ],
  [
    'a directory that the container does not see',
    pool({ directory: '/srv/fast' }),
    "config.pools.default: the driver's container does not see /srv/fast: add it, or a directory above it, to poolDirectories",
  ],
  [
    'a key file that the container does not see',
    pool({ encryption: { keyFile: '/run/keys/k' } }),
    "config.pools.default.encryption.keyFile: the driver's container does not see /run/keys/k: add its directory to keyDirectories",
  ],
  [
    'two pools on one disk',
    { config: { pools: { default: { device: '/dev/sdb' }, fast: { device: '/dev/sdb' } } } },
    "config.pools.fast: pool 'default' is already at /dev/sdb: give each pool its own place",
  ],
  [
    'patterns of which one is in the other',
    { config: { nodes: { 'db-*': {}, 'db-1*': {} } } },
    "config.nodes.db-1*: every such node also fits 'db-*', and one node cannot have two sections: change one of the patterns",
  ],
  [
    'a controller for one node',
    { oneNode: true, controller },
    'oneNode: set only one of oneNode and controller.enabled: with oneNode there is no controller',
  ],
  [
    'a controller in an old cluster',
    {},
    'controller.enabled: the controller needs Kubernetes 1.32 or newer, and this is v1.31.0: set oneNode: true if there is one node, otherwise controller.enabled: false',
    '1.31.0',
  ],
  [
    'groups of snapshots that would wait',
    { controller: { enabled: false }, snapshotClasses: { groups: true } },
    'snapshotClasses.groups: needs the controller or oneNode: group snapshots would wait forever',
  ],
  [
    'snapshots that nobody makes',
    { snapshotClasses: { enabled: true }, sidecars: { snapshotter: { enabled: false } } },
    'snapshotClasses.enabled: needs sidecars.snapshotter.enabled: snapshots would wait forever',
  ],
  [
    'attributes classes without a controller',
    { controller: { enabled: false }, volumeAttributesClasses: [{ name: 'a', parameters: { undelete: '1d' } }] },
    'volumeAttributesClasses: need the controller or oneNode: changes of volumes would go to the wrong node',
  ],
  [
    'attributes classes in an old cluster',
    { controller, volumeAttributesClasses: [{ name: 'a', parameters: { undelete: '1d' } }] },
    'volumeAttributesClasses: need Kubernetes 1.34 or newer; this is v1.33.0',
    '1.33.0',
  ],
  [
    'encryption without a key',
    oneClass({ encryption: 'luks2' }),
    'storageClasses: class a: encryption: needs a key: name a Secret (csi.storage.k8s.io/provisioner-secret-name, node-stage-secret-name and both namespaces), or give the pool a keyFile',
  ],
  [
    'encryption of directories',
    { poolDirectories: ['/srv/plain'], config: { pools: { default: plain } }, ...oneClass(encrypted.parameters) },
    'storageClasses: class a: encryption: pools of directories cannot encrypt: use a pool of another kind',
  ],
  [
    'two keys for one volume',
    oneClass({ encryption: 'luks2', ...secretOf('provisioner'), ...secretOf('node-stage', 'other') }),
    'storageClasses: class a: provisioner-secret-name and node-stage-secret-name must name the same Secret: a volume is opened with the key that it was made with',
  ],
  [
    'a Secret without its namespace',
    oneClass({ 'csi.storage.k8s.io/node-expand-secret-name': 'k' }),
    'storageClasses: class a: set both csi.storage.k8s.io/node-expand-secret-name and csi.storage.k8s.io/node-expand-secret-namespace',
  ],
  [
    'a misspelled pool',
    oneClass({ pool: 'fsat' }),
    "storageClasses: class a: there is no pool 'fsat'; there is default",
  ],
  [
    'a layout in a pool of images',
    oneClass({ layout: 'striped' }),
    'storageClasses: class a: layout: needs a pool of the kind lvm',
  ],
  [
    'two default classes',
    { storageClasses: ['a', 'b'].map((name) => ({ name, default: true })) },
    'storageClasses: only one class can be the default, and these are: a, b',
  ],
  [
    'two classes of one name',
    { storageClasses: [{ name: 'a' }, { name: 'a' }] },
    'storageClasses: class a: there are two classes of this name',
  ],
  [
    'metrics without a port',
    { monitoring: { port: 0, podMonitor: { enabled: true } } },
    'monitoring.podMonitor.enabled: needs a monitoring.port other than 0: without it there are no metrics',
  ],
  [
    'a quantity that is none',
    { resources: { limits: { memory: '1G1' } } },
    "resources.limits.memory: '1G1' is not a quantity: write a number with a unit, such as 500m or 1Gi",
  ],
  [
    'a tag in the repository',
    { image: { repository: 'registry.example.org/holdfast:1.0' } },
    "image.repository: 'registry.example.org/holdfast:1.0' has a tag in it: write the tag into image.tag",
  ],
  [
    'a slash too many',
    { kubeletDir: '/var/lib/k0s/kubelet/' },
    "kubeletDir: '/var/lib/k0s/kubelet/' must be an absolute path without . and .., and without a slash at its end",
  ],
  [
    "the driver's data among the kubelet's",
    { dataDir: '/var/lib/kubelet/holdfast' },
    'dataDir: /var/lib/kubelet/holdfast lies in kubeletDir: the kubelet cleans up there',
  ],
  [
    'a value in two groups of nodes',
    { nodeGroups: { a: { values: ['x'] }, b: { values: ['x'] } } },
    'nodeGroups.b.values: x belongs to another group, too: a node has one driver',
  ],
  [
    'groups of one node',
    { oneNode: true, nodeGroups: { a: {} } },
    'nodeGroups: set only one of nodeGroups and oneNode: there is one node only',
  ],
];

function pool(settings: object): Values {
  return { config: { pools: { default: settings } } };
}

function oneClass(parameters: object): Values {
  return { storageClasses: [{ name: 'a', parameters }] };
}
