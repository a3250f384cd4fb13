import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
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
});
const workload = z.looseObject({
  spec: z.looseObject({
    template: z.looseObject({
      spec: z.looseObject({
        serviceAccountName: z.string(),
        hostNetwork: z.boolean(),
        dnsPolicy: z.string(),
        automountServiceAccountToken: z.boolean().optional(),
        containers: z.array(container),
        volumes: z.array(z.looseObject({ name: z.string() })),
      }),
    }),
  }),
});

const { resources } = kustomization.parse(parse(read('files/kustomization.yaml')));
const objects = new Map(resources.flatMap((name) => [...objectsOf(read(`files/${name}`))]));

function podOf(name: string) {
  return workload.parse(objects.get(name)).spec.template.spec;
}

function environmentOf(name: string): Record<string, string | undefined> {
  const driver = podOf(name).containers.find((each) => each.name === 'holdfast');
  return Object.fromEntries((driver?.env ?? []).map((each) => [each.name, each.value]));
}

const home = 'Deployment holdfast-files';
const node = 'DaemonSet holdfast-files-node';

describe('deploy/files', () => {
  test('has all of its files, and shares no object with other directories but the namespace', () => {
    const files = readdirSync(join(deploy, 'files')).filter((name) => name !== 'kustomization.yaml');
    assert.deepEqual(resources.toSorted(), files.toSorted());
    const others = ['base', 'fleet'].flatMap((directory) =>
      readdirSync(join(deploy, directory))
        .filter((name) => name.endsWith('.yaml') && name !== 'kustomization.yaml')
        .flatMap((name) => [...objectsOf(read(`${directory}/${name}`)).keys()]),
    );
    assert.deepEqual(
      [...objects.keys()].filter((key) => others.includes(key)),
      ['Namespace holdfast-system'],
    );
    assert.equal(read('files/namespace.yaml'), read('base/namespace.yaml'));
  });

  test('all names of the driver are one', () => {
    const driver = 'files.holdfast.csi.dev';
    assert.ok(objects.has(`CSIDriver ${driver}`));
    assert.equal(objects.get('StorageClass holdfast-files')?.['provisioner'], driver);
    assert.match(environmentOf(node)['CSI_ENDPOINT'] ?? '', new RegExp(`/plugins/${driver}/csi\\.sock$`));
    assert.match(environmentOf(node)['HOLDFAST_REGISTRATION_SOCKET'] ?? '', new RegExp(`/${driver}-reg\\.sock$`));
  });

  test('the home has the pools and the sidecars, a node has neither, nor a right in the API', () => {
    assert.equal(environmentOf(home)['HOLDFAST_SIDE'], 'home');
    assert.equal(environmentOf(node)['HOLDFAST_SIDE'], 'node');
    assert.ok(environmentOf(home)['HOLDFAST_CONFIG'] !== undefined);
    assert.equal(environmentOf(node)['HOLDFAST_CONFIG'], undefined);
    const names = (workloadName: string) => podOf(workloadName).containers.map(({ name }) => name);
    assert.deepEqual(names(home), ['holdfast', 'csi-provisioner', 'csi-attacher', 'csi-snapshotter', 'csi-resizer']);
    assert.deepEqual(names(node), ['holdfast']);
    assert.equal(podOf(node).automountServiceAccountToken, false);
    const bound = [...objects.values()].filter(({ kind }) => /Binding$/.test(kind)).flatMap(subjectsOf);
    assert.deepEqual([...new Set(bound)], [podOf(home).serviceAccountName]);
  });

  test('both mount in the network of their node, and resolve names of the cluster', () => {
    for (const name of [home, node]) {
      assert.equal(podOf(name).hostNetwork, true, name);
      assert.equal(podOf(name).dnsPolicy, 'ClusterFirstWithHostNet', name);
    }
    assert.notEqual(environmentOf(home)['HOLDFAST_HTTP_ADDRESS'], environmentOf(node)['HOLDFAST_HTTP_ADDRESS']);
  });

  test('the images are those of the other manifests', () => {
    const known = read('base/daemon-set.yaml');
    const images = [...podOf(home).containers, ...podOf(node).containers].map(({ image }) => image);
    const others = [...new Set(images)].filter((image) => !known.includes(image));
    // No driver for local disks has one.
    assert.deepEqual(others, ['registry.k8s.io/sig-storage/csi-attacher:v4.13.0']);
  });

  test('each mount of a container has its volume', () => {
    for (const name of [home, node]) {
      const volumes = podOf(name).volumes.map((volume) => volume.name);
      for (const each of podOf(name).containers) {
        for (const mount of each.volumeMounts)
          assert.ok(volumes.includes(mount.name), `${name} ${each.name} ${mount.name}`);
      }
    }
  });

  test('the configuration is one that the driver takes', () => {
    const config = z
      .looseObject({ data: z.record(z.string(), z.string()) })
      .parse(objects.get('ConfigMap holdfast-files'));
    const { attach, pools } = z
      .strictObject({ attach: z.string(), pools: z.record(z.string(), z.record(z.string(), z.unknown())) })
      .parse(parse(config.data['holdfast.yaml'] ?? ''));
    const driver = z.looseObject({ spec: z.looseObject({ attachRequired: z.boolean() }) });
    assert.equal(
      driver.parse(objects.get('CSIDriver files.holdfast.csi.dev')).spec.attachRequired,
      attach === 'required',
    );
    const mistakes: { path: readonly string[]; message: string }[] = [];
    const section = new SectionReader(pools['files'], [], mistakes);
    section.refuseOthers(keysOf('nfs'));
    readPool('nfs', 'files', section);
    assert.deepEqual(mistakes, []);
    assert.equal(pools['files']?.['kind'], 'nfs');
  });
});

function subjectsOf(object: KubernetesObject): string[] {
  return z
    .looseObject({ subjects: z.array(z.looseObject({ name: z.string() })) })
    .parse(object)
    .subjects.map(({ name }) => name);
}
