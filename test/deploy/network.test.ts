import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { parse } from 'yaml';
import { z } from 'zod';
import { keysOf, readPool } from '../../src/pool/kinds.ts';
import { SectionReader } from '../../src/settings/section.ts';
import { type KubernetesObject, objectsOf } from './objects.ts';

const deploy = fileURLToPath(new URL('../../deploy', import.meta.url));
const read = (name: string) => readFileSync(join(deploy, name), 'utf8');
const kustomization = z.looseObject({ resources: z.array(z.string()) });

const container = z.looseObject({
  name: z.string(),
  image: z.string(),
  args: z.array(z.string()).optional(),
  env: z.array(z.looseObject({ name: z.string(), value: z.string().optional() })).optional(),
  volumeMounts: z.array(z.looseObject({ name: z.string(), mountPath: z.string() })),
  securityContext: z.looseObject({ capabilities: z.unknown().optional() }).optional(),
});
const workload = z.looseObject({
  spec: z.looseObject({
    template: z.looseObject({
      spec: z.looseObject({
        serviceAccountName: z.string(),
        hostNetwork: z.boolean().optional(),
        dnsPolicy: z.string().optional(),
        automountServiceAccountToken: z.boolean().optional(),
        containers: z.array(container),
        volumes: z.array(
          z.looseObject({
            name: z.string(),
            hostPath: z.looseObject({ path: z.string(), type: z.string().optional() }).optional(),
          }),
        ),
      }),
    }),
  }),
});

/** A directory with a driver whose volumes every node can reach. */
class Directory {
  readonly name: string;
  readonly resources: readonly string[];
  readonly objects: ReadonlyMap<string, KubernetesObject>;

  constructor(name: string) {
    this.name = name;
    this.resources = kustomization.parse(parse(read(`${name}/kustomization.yaml`))).resources;
    this.objects = new Map(this.resources.flatMap((file) => [...objectsOf(read(`${name}/${file}`))]));
  }

  get driver(): string {
    return `${this.name}.holdfast.csi.dev`;
  }

  get home(): Pod {
    return this.#pod(`Deployment holdfast-${this.name}`);
  }

  get node(): Pod {
    return this.#pod(`DaemonSet holdfast-${this.name}-node`);
  }

  get configuration() {
    const config = z
      .looseObject({ data: z.record(z.string(), z.string()) })
      .parse(this.objects.get(`ConfigMap holdfast-${this.name}`));
    return z
      .strictObject({ attach: z.string(), pools: z.record(z.string(), z.record(z.string(), z.unknown())) })
      .parse(parse(config.data['holdfast.yaml'] ?? ''));
  }

  #pod(workloadName: string): Pod {
    return workload.parse(this.objects.get(workloadName)).spec.template.spec;
  }
}

type Pod = z.infer<typeof workload>['spec']['template']['spec'];

function environmentOf({ containers }: Pod): Record<string, string | undefined> {
  const driver = containers.find((each) => each.name === 'holdfast');
  return Object.fromEntries((driver?.env ?? []).map((each) => [each.name, each.value]));
}

const namesOf = ({ containers }: Pod) => containers.map(({ name }) => name);
const files = new Directory('files');
const disks = new Directory('disks');

for (const { driver, home, name, node, objects, resources, configuration } of [files, disks]) {
  describe(`deploy/${name}`, () => {
    test('has all of its files, and shares no object with other directories but the namespace', () => {
      const present = readdirSync(join(deploy, name)).filter((file) => file !== 'kustomization.yaml');
      assert.deepEqual(resources.toSorted(), present.toSorted());
      const others = ['base', 'fleet', 'files', 'disks']
        .filter((directory) => directory !== name)
        .flatMap((directory) =>
          readdirSync(join(deploy, directory))
            .filter((file) => file.endsWith('.yaml') && file !== 'kustomization.yaml')
            .flatMap((file) => [...objectsOf(read(`${directory}/${file}`)).keys()]),
        );
      assert.deepEqual(
        [...objects.keys()].filter((key) => others.includes(key)),
        ['Namespace holdfast-system'],
      );
      assert.equal(read(`${name}/namespace.yaml`), read('base/namespace.yaml'));
    });

    test('all names of the driver are one', () => {
      assert.ok(objects.has(`CSIDriver ${driver}`));
      const { CSI_ENDPOINT, HOLDFAST_REGISTRATION_SOCKET, HOLDFAST_DATA } = environmentOf(node);
      assert.match(CSI_ENDPOINT ?? '', new RegExp(`/plugins/${driver}/csi\\.sock$`));
      assert.match(HOLDFAST_REGISTRATION_SOCKET ?? '', new RegExp(`/${driver}-reg\\.sock$`));
      assert.equal(HOLDFAST_DATA, `/var/lib/${driver}`);
      for (const pod of [home, node]) {
        // A driver without pools has the name of one for files.
        assert.equal(environmentOf(pod)['HOLDFAST_DRIVER_NAME'] ?? 'files.holdfast.csi.dev', driver);
      }
    });

    test('the directory of the socket is made for what a container mounts: no kubelet makes it, nor the driver', () => {
      const directory = dirname((environmentOf(node)['CSI_ENDPOINT'] ?? '').replace('unix://', ''));
      const made = node.volumes.find(({ hostPath }) => hostPath?.path === directory);
      assert.equal(made?.hostPath?.type, 'DirectoryOrCreate', directory);
      assert.ok(
        node.containers.some(({ volumeMounts }) => volumeMounts.some(({ name: mounted }) => mounted === made?.name)),
      );
    });

    test('the home has the configuration and the sidecars, a node has neither, nor a right in the API', () => {
      assert.equal(environmentOf(home)['HOLDFAST_SIDE'], 'home');
      assert.equal(environmentOf(node)['HOLDFAST_SIDE'], 'node');
      assert.ok(environmentOf(home)['HOLDFAST_CONFIG'] !== undefined);
      assert.equal(environmentOf(node)['HOLDFAST_CONFIG'], undefined);
      assert.deepEqual(namesOf(node), ['holdfast']);
      assert.equal(node.automountServiceAccountToken, false);
      const bound = [...objects.values()].filter(({ kind }) => /Binding$/.test(kind)).flatMap(subjectsOf);
      assert.deepEqual([...new Set(bound)], [home.serviceAccountName]);
    });

    test('what mounts does so in the network of its node, and resolves names of the cluster', () => {
      for (const pod of [node, ...(name === 'files' ? [home] : [])]) {
        assert.equal(pod.hostNetwork, true);
        assert.equal(pod.dnsPolicy, 'ClusterFirstWithHostNet');
      }
    });

    test('the images are those of the other manifests', () => {
      const known = read('base/daemon-set.yaml');
      const images = [...home.containers, ...node.containers].map(({ image }) => image);
      const others = [...new Set(images)].filter((image) => !known.includes(image));
      // No driver for local disks has one.
      assert.deepEqual(others, ['registry.k8s.io/sig-storage/csi-attacher:v4.13.0']);
    });

    test('each mount of a container has its volume', () => {
      for (const { containers, volumes } of [home, node]) {
        const known = volumes.map((volume) => volume.name);
        for (const each of containers) {
          for (const mount of each.volumeMounts) assert.ok(known.includes(mount.name), `${each.name} ${mount.name}`);
        }
      }
    });

    test('the CSIDriver object and the configuration agree', () => {
      const object = z.looseObject({ spec: z.looseObject({ attachRequired: z.boolean() }) });
      const { attachRequired } = object.parse(objects.get(`CSIDriver ${driver}`)).spec;
      assert.equal(attachRequired, configuration.attach === 'required');
    });
  });
}

test('on one node all drivers listen for monitoring at different ports', () => {
  const addresses = [files.home, files.node, disks.node].map((pod) => environmentOf(pod)['HOLDFAST_HTTP_ADDRESS']);
  assert.deepEqual(addresses, ['127.0.0.1:9818', '127.0.0.1:9819', '127.0.0.1:9821']);
});

describe('deploy/files', () => {
  test('its home makes, attaches, snapshots and grows', () => {
    assert.deepEqual(namesOf(files.home), [
      ...['holdfast', 'csi-provisioner', 'csi-attacher', 'csi-snapshotter', 'csi-resizer'],
    ]);
    assert.equal(files.objects.get('StorageClass holdfast-files')?.['provisioner'], files.driver);
  });

  test('the configuration is one that the driver takes', () => {
    const { pools } = files.configuration;
    const mistakes: { path: readonly string[]; message: string }[] = [];
    const section = new SectionReader(pools['files'], [], mistakes);
    section.refuseOthers(keysOf('nfs'));
    readPool('nfs', 'files', section);
    assert.deepEqual(mistakes, []);
    assert.equal(pools['files']?.['kind'], 'nfs');
  });
});

describe('deploy/disks', () => {
  test('its home makes no volumes: it gives each to one node at a time, and lets it grow, without a right on its node', () => {
    assert.deepEqual(namesOf(disks.home), ['holdfast', 'csi-attacher', 'csi-resizer']);
    assert.deepEqual(disks.configuration.pools, {});
    for (const { securityContext } of disks.home.containers) {
      assert.deepEqual(securityContext?.capabilities, { drop: ['ALL'] });
    }
    assert.equal(disks.objects.get('StorageClass holdfast-disks')?.['provisioner'], 'kubernetes.io/no-provisioner');
  });
});

function subjectsOf(object: KubernetesObject): string[] {
  return z
    .looseObject({ subjects: z.array(z.looseObject({ name: z.string() })) })
    .parse(object)
    .subjects.map(({ name }) => name);
}
