import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { parse } from 'yaml';
import { runToEnd } from '../cluster/harness/command.ts';
import { buildPrograms } from '../cluster/harness/programs.ts';
import { Helm, type Values } from './helm.ts';
import { objectsOf } from './objects.ts';

const deploy = fileURLToPath(new URL('../../deploy', import.meta.url));
const pools = { files: { kind: 'nfs', server: 'nas.example.com', share: '/export/kubernetes' } };
const google: Values = {
  disks: {
    enabled: true,
    config: { pools: { pd: { kind: 'gce-pd', poolId: 'change-me' } } },
    serviceAccountAnnotations: { 'iam.gke.io/gcp-service-account': 'holdfast@my-project.iam.gserviceaccount.com' },
    storageClasses: [{ name: 'holdfast-pd', parameters: { type: 'pd-balanced' } }],
  },
};
const cloud: Values = {
  disks: {
    enabled: true,
    config: { pools: { ebs: { kind: 'aws-ebs', poolId: 'change-me' } } },
    serviceAccountAnnotations: { 'eks.amazonaws.com/role-arn': 'arn:aws:iam::111122223333:role/holdfast-ebs' },
    storageClasses: [{ name: 'holdfast-ebs', parameters: { type: 'gp3', encrypted: 'true' } }],
  },
};
const both: Values = { files: { enabled: true, config: { pools } }, disks: { enabled: true } };

/** Differs in a chart, which adds the sum of the configuration and the objects of the other driver. */
function comparable(object: unknown): unknown {
  return JSON.parse(JSON.stringify(object, (key, value) => (key === 'checksum/config' ? undefined : value)));
}

/** kustomize puts containers and their variables into another order. */
function inOrder(value: unknown): unknown {
  if (Array.isArray(value)) {
    const items = value.map(inOrder);
    const nameOf = (item: unknown) => (item as { name?: string } | null)?.name ?? '';
    return items.every((item) => nameOf(item) !== '')
      ? items.toSorted((a, b) => nameOf(a).localeCompare(nameOf(b)))
      : items;
  }
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, inOrder(inner)]));
}

function withoutConfig(object: unknown): unknown {
  return JSON.parse(JSON.stringify(object ?? {}, (key, value) => (key === 'holdfast.yaml' ? undefined : value)));
}

function configIn(object: unknown): unknown {
  const { data } = (object ?? {}) as { data?: Record<string, string> };
  return data === undefined ? undefined : parse(data['holdfast.yaml'] ?? '');
}

describe('the chart, with storage over a network', () => {
  let helm: Helm;
  before(async () => {
    helm = await Helm.build();
  });

  for (const name of ['files', 'disks']) {
    test(`has for ${name} what deploy/${name} has`, async () => {
      const objects = objectsOf(await helm.template(both));
      const directory = join(deploy, name);
      const own = readdirSync(directory)
        .filter((file) => !['kustomization.yaml', 'namespace.yaml'].includes(file))
        .flatMap((file) => [...objectsOf(readFileSync(join(directory, file), 'utf8'))]);
      for (const [key, object] of own) {
        if (key === `ConfigMap holdfast-${name}`) continue;
        assert.deepEqual(comparable(objects.get(key)), comparable(object), key);
      }
      const config = objectsOf(readFileSync(join(directory, 'config.yaml'), 'utf8')).get(`ConfigMap holdfast-${name}`);
      const text = (map: unknown) => parse((map as { data: Record<string, string> }).data['holdfast.yaml'] ?? '');
      assert.deepEqual(text(objects.get(`ConfigMap holdfast-${name}`)), text(config));
    });
  }

  for (const [name, values] of [
    ['aws-ebs', cloud],
    ['gce-pd', google],
  ] as const) {
    test(`has for volumes of a cloud what deploy/${name} has`, async () => {
      const kubectl = join(await buildPrograms(['kubectl']), 'kubectl');
      const own = objectsOf(await runToEnd(kubectl, ['kustomize', join(deploy, name)]));
      const objects = objectsOf(await helm.template(values));
      for (const [key, object] of own) {
        if (key.startsWith('Namespace ')) continue;
        const made = objects.get(key);
        assert.deepEqual(inOrder(comparable(withoutConfig(made))), inOrder(comparable(withoutConfig(object))), key);
        assert.deepEqual(configIn(made), configIn(object));
      }
    });
  }

  test('has nothing of it unless it is enabled', async () => {
    const keys = [...objectsOf(await helm.template()).keys()];
    assert.deepEqual(
      keys.filter((key) => /files|disks/.test(key)),
      [],
    );
  });

  test('takes what differs from place to place for all drivers', async () => {
    const text = await helm.template({
      ...both,
      kubeletDir: '/data/kubelet',
      image: { repository: 'registry.example.org/holdfast', tag: '1.2.3' },
      imagePullSecrets: [{ name: 'registry' }],
      tolerations: [],
    });
    assert.doesNotMatch(text, /\/var\/lib\/kubelet|localhost\/holdfast/);
    assert.equal(text.match(/imagePullSecrets:/g)?.length, 6);
  });

  test('needs no pool for files that PersistentVolumes name, and has no class then', async () => {
    const named = { files: { enabled: true, config: { pools: {} }, storageClasses: [] } };
    const objects = objectsOf(await helm.template(named));
    assert.deepEqual(configIn(objects.get('ConfigMap holdfast-files')), { attach: 'required', pools: {} });
    assert.ok(![...objects.keys()].includes('StorageClass holdfast-files'));
  });

  const refused: Readonly<Record<string, readonly [Values, RegExp]>> = {
    'a configuration that nothing reads': [
      { files: { config: { pools } } },
      /files\.config: needs files\.enabled: true/,
    ],
    'no pool': [{ files: { enabled: true } }, /files\.config\.pools: needs a pool/],
    'a pool of one node': [
      { files: { enabled: true, config: { pools: { files: { kind: 'lvm' } } } } },
      /files\.config\.pools\.files: kind lvm lies on one node: move it to config\.pools/,
    ],
    'a class of a pool that is not there': [
      { files: { enabled: true, config: { pools: { other: pools.files } } } },
      /class holdfast-files: there is no pool files in files\.config\.pools/,
    ],
    'a class without any pool': [
      { files: { enabled: true, config: { pools: {} } } },
      /class holdfast-files: there is no pool files in files\.config\.pools/,
    ],
    'a class that is there already': [
      { files: { enabled: true, config: { pools }, storageClasses: [{ name: 'holdfast' }] } },
      /class holdfast: there are two classes of this name/,
    ],
    'pools of disks that nothing reads': [
      { disks: { config: { pools } } },
      /disks\.config: needs disks\.enabled: true/,
    ],
    'a pool of NFS among disks': [
      { disks: { enabled: true, config: { pools } } },
      /disks\.config\.pools\.files: kind nfs is of files: move it to files\.config\.pools/,
    ],
    'a pool of one node among disks': [
      { disks: { enabled: true, config: { pools: { one: { kind: 'disk' } } } } },
      /disks\.config\.pools\.one: kind disk lies on one node/,
    ],
    'pools of two clouds': [
      {
        disks: {
          enabled: true,
          config: { pools: { a: { kind: 'aws-ebs', poolId: 'a' }, b: { kind: 'gce-pd', poolId: 'b' } } },
        },
      },
      /disks\.config\.pools: has pools of two clouds/,
    ],
    'classes of disks without a pool': [
      { disks: { enabled: true, storageClasses: [{ name: 'holdfast-ebs' }] } },
      /disks\.storageClasses: need a pool in disks\.config\.pools/,
    ],
    'a class of disks that is there already': [
      { disks: { ...(cloud['disks'] as object), storageClasses: [{ name: 'holdfast-disks' }] } },
      /class holdfast-disks: there are two classes of this name/,
    ],
    'a class of disks whose pool is not there': [
      { disks: { ...(cloud['disks'] as object), storageClasses: [{ name: 'x', parameters: { pool: 'y' } }] } },
      /class x: there is no pool y in disks\.config\.pools/,
    ],
    'another attach than the CSIDriver object has': [
      { files: { enabled: true, config: { attach: 'none', pools } } },
      /files\.config\.attach: must be required/,
    ],
  };
  for (const [name, [values, message]] of Object.entries(refused)) {
    test(`refuses ${name}`, async () => {
      await assert.rejects(helm.template(values), message);
    });
  }
});
