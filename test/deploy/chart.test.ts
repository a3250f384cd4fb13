import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { parse } from 'yaml';
import { z } from 'zod';
import { parseConfigFile } from '../../src/config/file.ts';
import { runToEnd } from '../cluster/harness/command.ts';
import { buildPrograms } from '../cluster/harness/programs.ts';
import { Helm, type Values } from './helm.ts';
import { type KubernetesObject, objectsOf } from './objects.ts';

const deploy = fileURLToPath(new URL('../../deploy', import.meta.url));

const places = { dataDirectory: '/var/lib/holdfast', kubeletDirectory: '/var/lib/kubelet' };

/** All that is optional, and all that differs from place to place. */
const everything: Values = {
  image: { repository: 'registry.example.org/storage/holdfast', tag: '1.2.3' },
  imagePullSecrets: [{ name: 'registry' }],
  kubeletDir: '/var/snap/microk8s/common/var/lib/kubelet',
  dataDir: '/data/holdfast',
  poolDirectories: ['/srv/fast', '/srv/slow'],
  keyDirectories: ['/run/keys'],
  config: {
    nodes: { 'db-*': { pools: { own: { device: '/dev/sdb' } }, maxVolumesPerNode: 5 } },
    pools: {
      fast: { directory: '/srv/fast/pool', reserve: '1Gi' },
      disk: { kind: 'image', device: '/dev/nvme1n1', undelete: '24h', sickAfter: '1m' },
      plain: { kind: 'directory', path: '/srv/slow/plain', quota: 'none', overcommit: 2 },
      raw: { kind: 'lvm', volumeGroup: 'vg0', wipe: 'zero', encryption: { keyFile: '/run/keys/holdfast' } },
    },
    defaultPool: 'fast',
    maxVolumesPerNode: 100,
    maxInlineSize: '10Gi',
  },
  podAnnotations: { 'example.org/team': 'storage' },
  podLabels: { tier: 'storage' },
  affinity: { nodeAffinity: {} },
  storageClasses: [
    {
      name: 'fast',
      default: true,
      reclaimPolicy: 'Retain',
      mountOptions: ['noatime'],
      parameters: { forgetNodeAfter: '7d' },
    },
    {
      name: 'encrypted',
      parameters: {
        poolSelector: 'media in (ssd)',
        encryption: 'luks2',
        'csi.storage.k8s.io/provisioner-secret-name': 'volumes',
        'csi.storage.k8s.io/provisioner-secret-namespace': 'holdfast-system',
        'csi.storage.k8s.io/node-stage-secret-name': 'volumes',
        'csi.storage.k8s.io/node-stage-secret-namespace': 'holdfast-system',
      },
    },
  ],
  oneNode: true,
  snapshotClasses: { enabled: true, deletionPolicy: 'Retain', groups: true },
  volumeAttributesClasses: [{ name: 'thick', parameters: { provisioning: 'thick' } }],
  monitoring: {
    podMonitor: { enabled: true, labels: { release: 'prometheus' } },
    alerts: { enabled: true, labels: { release: 'prometheus' } },
    dashboard: { enabled: true },
  },
  networkPolicy: { enabled: true },
  priorityQuota: true,
};

const withController: Values = { controller: { enabled: true } };

const configMap = z.looseObject({ data: z.record(z.string(), z.string()) });

const podTemplate = z.looseObject({
  spec: z.looseObject({
    template: z.looseObject({ metadata: z.looseObject({ annotations: z.record(z.string(), z.string()) }) }),
  }),
});

const podWithSocket = z.looseObject({
  containers: z.array(z.looseObject({ name: z.string(), volumeMounts: z.array(z.looseObject({ name: z.string() })) })),
  volumes: z.array(
    z.looseObject({ name: z.string(), hostPath: z.looseObject({ type: z.string().optional() }).optional() }),
  ),
});

describe('Helm chart', () => {
  let helm: Helm;
  let kubectl: string;

  before(async () => {
    helm = await Helm.build();
    kubectl = join(await buildPrograms(['kubectl']), 'kubectl');
  });

  const kustomized = async (directory: string) =>
    objectsOf(await runToEnd(kubectl, ['kustomize', join(deploy, directory)]));

  for (const [directory, values] of [
    ['.', { controller: { disruptionBudget: false } }],
    ['fleet', { controller: { enabled: true, disruptionBudget: false } }],
    ['one-node', { oneNode: true }],
    ['node-sidecars', { controller: { enabled: false } }],
  ] as const) {
    test(`makes the same objects as deploy/${directory} does, but for the namespace`, async () => {
      const fromChart = objectsOf(await helm.template(values));
      const fromManifests = await kustomized(directory);
      assert.equal(fromManifests.delete('Namespace holdfast-system'), true);
      assert.deepEqual([...fromChart.keys()].sort(), [...fromManifests.keys()].sort());
      for (const [name, object] of fromManifests) assert.deepEqual(comparable(fromChart.get(name)), object, name);
    });
  }

  test('makes the same classes as deploy/snapshots, deploy/group-snapshots and deploy/attributes do', async () => {
    const directories = ['snapshots', 'group-snapshots', 'attributes'];
    const expected = new Map((await Promise.all(directories.map(kustomized))).flatMap((objects) => [...objects]));
    const volumeAttributesClasses = [
      { name: 'holdfast-thick', parameters: { provisioning: 'thick' } },
      { name: 'holdfast-thin', parameters: { provisioning: 'thin' } },
      { name: 'holdfast-undelete-week', parameters: { undelete: '7d' } },
    ];
    const snapshotClasses = { enabled: true, groups: true };
    const objects = objectsOf(await helm.template({ oneNode: true, snapshotClasses, volumeAttributesClasses }));
    for (const [name, object] of expected) assert.deepEqual(objects.get(name), object, name);
  });

  test('makes the same PodMonitors as deploy/monitoring and deploy/fleet/monitoring do, and the same alerts of the controller', async () => {
    const values = { ...withController, monitoring: { podMonitor: { enabled: true }, alerts: { enabled: true } } };
    const objects = objectsOf(await helm.template(values));
    for (const [directory, name] of [
      ['monitoring', 'PodMonitor holdfast'],
      ['fleet/monitoring', 'PodMonitor holdfast-controller'],
    ] as const) {
      assert.deepEqual(objects.get(name), (await kustomized(directory)).get(name));
    }
    const rules = 'PrometheusRule holdfast-controller';
    const expected = (await kustomized('fleet/monitoring')).get(rules);
    assert.deepEqual(inOneLine(objects.get(rules)), inOneLine(expected));
  });

  // The kubelet creates a host path only for a volume that a container mounts, and the driver makes no directory for its socket.
  test('has the kubelet create the directory of the socket, on a node that is new', async () => {
    for (const directory of ['.', 'one-node', 'node-sidecars']) {
      const { spec } = podTemplate.parse((await kustomized(directory)).get('DaemonSet holdfast'));
      const pod = podWithSocket.parse(spec.template['spec']);
      assert.equal(pod.volumes.find(({ name }) => name === 'socket')?.hostPath?.type, 'DirectoryOrCreate');
      const driver = pod.containers.find(({ name }) => name === 'holdfast');
      assert.ok(
        driver?.volumeMounts.some(({ name }) => name === 'socket'),
        directory,
      );
    }
  });

  // A kubelet may read whatever its pods mount, and who has the controller's key passes for the controller.
  test('mounts no Secret on nodes', async () => {
    const daemonSets = [objectsOf(await helm.template(withController)), await kustomized('fleet')];
    for (const objects of daemonSets) {
      const daemonSet = JSON.stringify(objects.get('DaemonSet holdfast'));
      assert.ok(daemonSet.includes('"configMap":{"name":"holdfast-controller","optional":true}'));
      assert.ok(!daemonSet.includes('secretName') && !daemonSet.includes('secretKeyRef'));
    }
  });

  test('lets the controller make events only where it is to tell claims of their nodes', async () => {
    const [on, off] = await Promise.all(
      [true, false].map(async (events) => objectsOf(await helm.template({ controller: { enabled: true, events } }))),
    );
    for (const [objects, isThere] of [
      [on, true],
      [off, false],
    ] as const) {
      const role = JSON.stringify(objects?.get('ClusterRole holdfast-controller'));
      const deployment = JSON.stringify(objects?.get('Deployment holdfast-controller'));
      assert.equal(role.includes('{"apiGroups":[""],"resources":["events"],"verbs":["create"]}'), isThere);
      assert.equal(deployment.includes('{"name":"HOLDFAST_EVENTS_AFTER","value":"5m"}'), isThere);
    }
  });

  test('lets the controller taint nodes only where it is to, by the roles of deploy/fleet/taint-quarantine.yaml', async () => {
    const controller = { enabled: true, taintQuarantine: 'PreferNoSchedule' };
    const [on, off] = await Promise.all([helm.template({ controller }), helm.template(withController)]);
    const manifests = objectsOf(readFileSync(join(deploy, 'fleet/taint-quarantine.yaml'), 'utf8'));
    assert.equal(manifests.size, 2);
    for (const [name, object] of manifests) {
      assert.deepEqual(objectsOf(on).get(name), object);
      assert.ok(!objectsOf(off).has(name), name);
    }
    const deployment = JSON.stringify(objectsOf(on).get('Deployment holdfast-controller'));
    assert.ok(deployment.includes('{"name":"HOLDFAST_TAINT_QUARANTINE","value":"PreferNoSchedule"}'));
    assert.doesNotMatch(off, /HOLDFAST_TAINT_QUARANTINE/);
  });

  test('makes the same disruption budget as deploy/fleet/disruption-budget.yaml', async () => {
    const name = 'PodDisruptionBudget holdfast-controller';
    const original = objectsOf(readFileSync(join(deploy, 'fleet/disruption-budget.yaml'), 'utf8'));
    assert.deepEqual(objectsOf(await helm.template(withController)).get(name), original.get(name));
  });

  test('lets group snapshots be, with a controller, and its metrics be read by whom networkPolicy names', async () => {
    const values = {
      ...withController,
      snapshotClasses: { enabled: true, groups: true },
      networkPolicy: { enabled: true },
    };
    const objects = objectsOf(await helm.template(values));
    assert.ok(objects.has('VolumeGroupSnapshotClass holdfast'));
    assert.match(JSON.stringify(objects.get('NetworkPolicy holdfast-controller')), /"http".*namespaceSelector/);
  });

  test('has the same alerts and dashboard as deploy/monitoring, with the labels that are wanted', async () => {
    for (const [file, source] of [
      ['alerts.yaml', 'monitoring/alerts.yaml'],
      ['dashboard.json', 'monitoring/dashboard.json'],
      ['controller-alerts.yaml', 'fleet/monitoring/alerts.yaml'],
    ]) {
      const [own, original] = [`charts/holdfast/files/${file}`, `${source}`].map((path) =>
        readFileSync(join(deploy, path), 'utf8'),
      );
      assert.equal(own, original, `copy it: deploy/${source} to deploy/charts/holdfast/files/${file}`);
    }
    const objects = objectsOf(await helm.template(everything));
    const expected = await kustomized('monitoring');
    const labelled = z.looseObject({ metadata: z.looseObject({ labels: z.record(z.string(), z.string()) }) });
    for (const [name, part, label] of [
      ['PrometheusRule holdfast', 'spec', 'release'],
      ['ConfigMap holdfast-dashboard', 'data', 'grafana_dashboard'],
    ] as const) {
      const [made, original] = [objects.get(name), expected.get(name)].map((object) => labelled.parse(object));
      assert.ok(made?.metadata.labels[label] !== undefined, name);
      assert.deepEqual(inOneLine(made[part]), inOneLine(original?.[part]), name);
    }
  });

  test('names the image by its digest, and leaves out the priority class, where that is wanted', async () => {
    const digest = `sha256:${'a'.repeat(64)}`;
    const values = { image: { repository: 'r.example/holdfast', digest }, priorityClassName: '' };
    const text = JSON.stringify(objectsOf(await helm.template(values)).get('DaemonSet holdfast'));
    assert.ok(text.includes(`"r.example/holdfast@${digest}"`));
    assert.ok(!text.includes('priorityClassName'));
  });

  test('offers inline volumes or not', async () => {
    const csiDriver = z.looseObject({ spec: z.looseObject({ volumeLifecycleModes: z.array(z.string()) }) });
    for (const [inlineVolumes, modes] of [
      [true, ['Persistent', 'Ephemeral']],
      [false, ['Persistent']],
    ] as const) {
      const object = objectsOf(await helm.template({ inlineVolumes })).get('CSIDriver holdfast.csi.dev');
      assert.deepEqual(csiDriver.parse(object).spec.volumeLifecycleModes, modes);
    }
  });

  test('limits inline volumes where they are offered, on nodes of every group', async () => {
    const own = { maxInlineSize: '50Gi' };
    for (const [values, expected] of [
      [{}, [undefined, undefined]],
      [{ inlineVolumes: true }, [10n << 30n, 10n << 30n]],
      [{ inlineVolumes: true, config: own }, [50n << 30n, 10n << 30n]],
    ] as const) {
      const objects = objectsOf(await helm.template({ ...values, nodeGroups: { nvme: {} } }));
      const limits = ['holdfast', 'holdfast-nvme'].map((name) => {
        const { data } = configMap.parse(objects.get(`ConfigMap ${name}`));
        const parsed = parseConfigFile(data['holdfast.yaml'] ?? '', places);
        return 'file' in parsed ? parsed.file.common.maxInlineSizeBytes : parsed.problems;
      });
      assert.deepEqual(limits, expected);
    }
  });

  test('puts the kubelet directory where replacing it in the manifests puts it', async () => {
    const kubeletDir = '/var/lib/k0s/kubelet';
    const replaced = (await runToEnd(kubectl, ['kustomize', deploy])).replaceAll('/var/lib/kubelet', kubeletDir);
    const fromChart = objectsOf(await helm.template({ kubeletDir })).get('DaemonSet holdfast');
    assert.deepEqual(comparable(fromChart), objectsOf(replaced).get('DaemonSet holdfast'));
    assert.match(replaced, /unix:\/\/\/var\/lib\/k0s\/kubelet\/plugins\/holdfast\.csi\.dev\/csi\.sock/);
  });

  test('has a configuration that the driver understands, with every value', async () => {
    for (const [values, pools] of [
      [{}, []],
      [everything, ['disk', 'fast', 'plain', 'raw']],
    ] as const) {
      const { data } = configMap.parse(objectsOf(await helm.template(values)).get('ConfigMap holdfast'));
      const parsed = parseConfigFile(data['holdfast.yaml'] ?? '', places);
      assert.ok('file' in parsed, data['holdfast.yaml'] ?? 'there is no holdfast.yaml');
      assert.deepEqual((parsed.file.common.pools ?? []).map(({ name }) => name).sort(), pools);
    }
  });

  test('gives each group of nodes its drivers and its configuration, and no node two drivers', async () => {
    const values: Values = {
      nodeGroupLabel: 'node.kubernetes.io/instance-type',
      podLabels: { 'app.kubernetes.io/component': 'mine', tier: 'storage' },
      nodeGroups: {
        on: {},
        nvme: { values: ['i4i.large', 'i4i.xlarge'], config: { pools: { fast: { directory: '/srv/fast' } } } },
        plain: {},
      },
      config: { nodes: { 'db-*': { pools: { slow: { directory: '/srv/slow/pool' } } } } },
      poolDirectories: ['/srv/slow', '/srv/fast'],
      networkPolicy: { enabled: true },
      monitoring: { podMonitor: { enabled: true } },
    };
    const objects = objectsOf(await helm.template(values));
    const daemonSet = z.looseObject({
      spec: z.looseObject({
        selector: z.looseObject({ matchLabels: z.record(z.string(), z.string()) }),
        template: z.looseObject({
          metadata: z.looseObject({ labels: z.record(z.string(), z.string()) }),
          spec: z.looseObject({
            affinity: z.unknown(),
            volumes: z.array(z.looseObject({ name: z.string(), configMap: z.unknown().optional() })),
          }),
        }),
      }),
    });
    const key = 'node.kubernetes.io/instance-type';
    const selectors: string[] = [];
    for (const [name, operator, labelValues, config] of [
      ['holdfast', 'NotIn', ['i4i.large', 'i4i.xlarge', 'on', 'plain'], 'systemDisk: refuse'],
      ['holdfast-on', 'In', ['on'], '{}'],
      ['holdfast-nvme', 'In', ['i4i.large', 'i4i.xlarge'], 'directory: /srv/fast'],
      ['holdfast-plain', 'In', ['plain'], '{}'],
    ] as const) {
      const { selector, template } = daemonSet.parse(objects.get(`DaemonSet ${name}`)).spec;
      assert.ok(
        JSON.stringify(template.spec.affinity).includes(JSON.stringify({ key, operator, values: labelValues })),
      );
      assert.partialDeepStrictEqual(template.metadata.labels, selector.matchLabels);
      assert.equal(template.metadata.labels['tier'], 'storage');
      selectors.push(JSON.stringify(selector.matchLabels));
      const configMap = template.spec.volumes.find((volume) => volume.name === 'config')?.configMap;
      assert.deepEqual(configMap, { name });
      const text = JSON.stringify(objects.get(`ConfigMap ${name}`));
      assert.ok(text.includes(config), text);
    }
    assert.equal(new Set(selectors).size, 4);
    for (const name of ['NetworkPolicy holdfast', 'PodMonitor holdfast']) {
      assert.match(JSON.stringify(objects.get(name)), /"values":\["holdfast","holdfast-group"\]/, name);
    }
  });

  test('is content without an affinity of its own, and without groups', async () => {
    const text = await helm.template({ affinity: null, nodeGroups: null });
    assert.doesNotMatch(JSON.stringify(objectsOf(text).get('DaemonSet holdfast')), /affinity/);
  });

  test('promises a superblock of its own for each volume only where no pool has directories', async () => {
    const csiDriver = z.looseObject({ spec: z.looseObject({ seLinuxMount: z.boolean() }) });
    const fast = { directory: '/srv/fast' };
    for (const [config, expected] of [
      [{}, true],
      [{ pools: { fast } }, true],
      [{ pools: { fast, plain: { kind: 'directory', path: '/srv/plain' } }, defaultPool: 'fast' }, false],
      [{ pools: { fast }, nodes: { a: { pools: { plain: { kind: 'directory', path: '/srv/plain' } } } } }, false],
    ] as const) {
      const object = objectsOf(await helm.template({ config, poolDirectories: ['/srv'] })).get(
        'CSIDriver holdfast.csi.dev',
      );
      assert.equal(csiDriver.parse(object).spec.seLinuxMount, expected, JSON.stringify(config));
    }
  });

  test('lets the driver see what a pool of directories lies in under the same path, to adopt what is beside it', async () => {
    const parent = '/opt/local-path-provisioner';
    const config = { pools: { plain: { kind: 'directory', path: `${parent}/holdfast` } } };
    const objects = objectsOf(await helm.template({ config, poolDirectories: [parent] }));
    const daemonSet = JSON.stringify(objects.get('DaemonSet holdfast'));
    assert.ok(daemonSet.includes(`{"name":"pool-0","hostPath":{"path":"${parent}","type":"DirectoryOrCreate"}}`));
    assert.match(daemonSet, new RegExp(`"mountPath":"${parent}"`));
  });

  test('lets the driver read the key files of pools, and change nothing beside them', async () => {
    const objects = objectsOf(await helm.template({ keyDirectories: ['/run/keys'] }));
    const daemonSet = JSON.stringify(objects.get('DaemonSet holdfast'));
    assert.ok(daemonSet.includes('{"name":"key-0","hostPath":{"path":"/run/keys","type":"Directory"}}'));
    const mount = { name: 'key-0', mountPath: '/run/keys', readOnly: true, mountPropagation: 'HostToContainer' };
    assert.ok(daemonSet.includes(JSON.stringify(mount)));
  });

  test('makes no pool on the system disk of a node that lacks a pool directory, unless that is meant', async () => {
    const pools = {
      fast: { directory: '/srv/fast/pool' },
      file: { file: '/srv/fast/pool.img' },
      plain: { kind: 'directory', path: '/srv/fast/plain' },
      meant: { directory: '/srv/fast/meant', systemDisk: 'allow' },
      elsewhere: { directory: '/srv/faster', systemDisk: 'allow' },
      disk: { device: '/dev/nvme1n1' },
      default: null,
    };
    const objects = objectsOf(
      await helm.template({ config: { pools }, poolDirectories: ['/srv/fast', '/srv/faster'] }),
    );
    const { data } = configMap.parse(objects.get('ConfigMap holdfast'));
    const text = data['holdfast.yaml'] ?? '';
    assert.ok('file' in parseConfigFile(text, places), text);
    assert.deepEqual(parse(text), {
      pools: {
        ...pools,
        fast: { ...pools.fast, systemDisk: 'refuse' },
        file: { ...pools.file, systemDisk: 'refuse' },
        plain: { ...pools.plain, systemDisk: 'refuse' },
      },
    });
    assert.match(JSON.stringify(objects.get('DaemonSet holdfast')), /"path":"\/srv\/fast","type":"DirectoryOrCreate"/);
  });

  test('can be installed with every value', async () => {
    const objects = objectsOf(await helm.template(everything));
    for (const name of [
      'PodMonitor holdfast',
      'VolumeSnapshotClass holdfast',
      'VolumeAttributesClass thick',
      'NetworkPolicy holdfast',
      'ResourceQuota holdfast',
    ]) {
      assert.ok(objects.has(name), name);
    }
    assert.match(
      JSON.stringify(objects.get('DaemonSet holdfast')),
      /registry\.example\.org\/storage\/holdfast:1\.2\.3/,
    );
  });

  test('starts the driver anew when its configuration changes', async () => {
    const [one, other] = await Promise.all([helm.template(), helm.template(everything)]);
    const sums = [one, other].map((text) => /checksum\/config: ([0-9a-f]{64})/.exec(text)?.[1]);
    assert.ok(sums[0] !== undefined && sums[1] !== undefined && sums[0] !== sums[1]);
  });

  test('has nothing that helm lint minds', async () => {
    for (const values of [{}, everything, withController])
      assert.match(await helm.lint(values), /1 chart\(s\) linted, 0 chart\(s\) failed/);
  });

  const nonsense: [string, Values, RegExp][] = [
    ['a misspelled value', { kubletDir: '/var/lib/kubelet' }, /kubletDir/],
    ['a relative directory', { kubeletDir: 'var/lib/kubelet' }, /kubeletDir/],
    ['a directory with a slash at its end', { kubeletDir: '/var/lib/kubelet/' }, /kubeletDir/],
    ['a relative directory of keys', { keyDirectories: ['run/keys'] }, /keyDirectories/],
    ['a directory that leads elsewhere', { dataDir: '/var/lib/../etc' }, /dataDir/],
    ['a pool of a kind there is not', { config: { pools: { a: { kind: 'zfs' } } } }, /kind/],
    ['a key of another kind', { config: { pools: { a: { kind: 'directory', path: '/srv/a', size: '1Gi' } } } }, /size/],
    ['a pool of directories that is nowhere', { config: { pools: { a: { kind: 'directory' } } } }, /path/],
    ['a pool of logical volumes that is nowhere', { config: { pools: { a: { kind: 'lvm' } } } }, /volumeGroup/],
    ['a pool with a misspelled key', { config: { pools: { a: { reserved: '1Gi' } } } }, /reserved/],
    ['a pool whose name cannot be one', { config: { pools: { 'A pool': {} } } }, /A pool/],
    ['a size without sense', { config: { pools: { a: { size: 'large' } } } }, /size/],
    ['a log level there is not', { logLevel: 'loud' }, /logLevel/],
    ['a parameter there is not', { storageClasses: [{ name: 'a', parameters: { color: 'red' } }] }, /color/],
    [
      'a filesystem there is not',
      { storageClasses: [{ name: 'a', parameters: { 'csi.storage.k8s.io/fstype': 'ntfs' } }] },
      /fstype/,
    ],
    ['a class without a name', { storageClasses: [{ reclaimPolicy: 'Delete' }] }, /name/],
    ['a port beyond all ports', { monitoring: { port: 70000 } }, /port/],
    ['a sidecar without a version', { sidecars: { resizer: { image: 'csi-resizer' } } }, /image/],
    ['a digest that is none', { image: { repository: 'a', digest: 'latest' } }, /digest/],
    ['a tolerations map', { tolerations: { operator: 'Exists' } }, /tolerations/],
    ['a controller for one node', { oneNode: true, ...withController }, /oneNode/],
    ['a controller without replicas', { controller: { enabled: true, replicas: 0 } }, /replicas/],
    ['a taint that ends pods', { controller: { enabled: true, taintQuarantine: 'NoExecute' } }, /taintQuarantine/],
    [
      'groups that would wait forever',
      { controller: { enabled: false }, snapshotClasses: { groups: true } },
      /oneNode/,
    ],
    // Without external-attacher, which the chart does not have, no pod would get its volume.
    ['two groups of one label value', { nodeGroups: { a: { values: ['x'] }, b: { values: ['x'] } } }, /another group/],
    ['a group of a name that is taken', { nodeGroups: { dashboard: {} } }, /nodeGroups/],
    [
      'moves between nodes that nobody introduces',
      { oneNode: true, moveBetweenNodes: true },
      /moveBetweenNodes: needs the controller/,
    ],
    ['groups of one node', { oneNode: true, nodeGroups: { a: {} } }, /one node only/],
    ['a default that a group lacks', { nodeGroups: { a: { config: { defaultPool: 'q' } } } }, /nodeGroups\.a\.config/],
    ['an attach that nobody does', { config: { attach: 'required' } }, /attach/],
  ];
  for (const [what, values, words] of nonsense) {
    test(`refuses ${what}`, () => assert.rejects(helm.template(values), words));
  }
});

/** Without the one thing that only the chart can have: a sum that changes with the configuration. */
function comparable(object: KubernetesObject | undefined): KubernetesObject | undefined {
  if (object?.kind !== 'DaemonSet') return object;
  const copy = structuredClone(object);
  const parsed = podTemplate.safeParse(copy);
  assert.ok(parsed.success && parsed.data.spec.template.metadata.annotations['checksum/config'] !== undefined);
  return withoutKey(copy, 'checksum/config');
}

/** With every text in one line: where kustomize and helm break lines they differ. */
function inOneLine(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value), (_key, inner: unknown) =>
    typeof inner === 'string' ? inner.replaceAll(/\s+/g, ' ').trim() : inner,
  );
}

function withoutKey<T>(value: T, key: string): T {
  return JSON.parse(JSON.stringify(value, (name, inner: unknown) => (name === key ? undefined : inner)));
}
