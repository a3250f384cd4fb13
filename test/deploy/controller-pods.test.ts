import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import { Helm } from './helm.ts';
import { type KubernetesObject, objectsOf } from './objects.ts';

const fleet = ['access', 'controller', 'network-policy', 'disruption-budget', 'taint-quarantine'];

const labelled = z.looseObject({ metadata: z.looseObject({ labels: z.record(z.string(), z.string()) }) });
const binding = z.looseObject({
  roleRef: z.looseObject({ name: z.string() }),
  subjects: z.array(z.looseObject({ name: z.string() })),
});
const workload = z.looseObject({
  spec: z.looseObject({
    template: z.looseObject({
      metadata: z.looseObject({ labels: z.record(z.string(), z.string()).optional() }).optional(),
      spec: z.looseObject({
        serviceAccountName: z.string(),
        tolerations: z.array(z.record(z.string(), z.string())).optional(),
      }),
    }),
  }),
});

describe('the pods of the controller', () => {
  let helm: Helm;

  before(async () => {
    helm = await Helm.build();
  });

  const files = (names: readonly string[]) =>
    objectsOf(
      names
        .map((name) => readFileSync(fileURLToPath(new URL(`../../deploy/${name}.yaml`, import.meta.url)), 'utf8'))
        .join('---\n'),
    );
  const template = (objects: ReadonlyMap<string, KubernetesObject>, name: string) =>
    workload.parse(objects.get(name)).spec.template;

  // Who has the account may read the key by which anybody passes for the controller.
  test('have an account that no pod of a node has, and all that is theirs is found by its label', async () => {
    const controller = { enabled: true, taintQuarantine: 'NoSchedule' };
    const [without, withController] = await Promise.all([
      helm.template({ controller: { enabled: false } }),
      helm.template({ controller }),
    ]);
    for (const [beside, objects] of [
      [files(['base/access', 'base/daemon-set']), files(fleet.map((name) => `fleet/${name}`))],
      [objectsOf(without), objectsOf(withController)],
    ] as const) {
      const { spec } = template(objects, 'Deployment holdfast-controller');
      assert.equal(spec.serviceAccountName, 'holdfast-controller');
      const roles: string[] = [];
      for (const [name, object] of objects) {
        if (beside.has(name) || name === 'ServiceAccount holdfast-node') continue;
        assert.equal(labelled.parse(object).metadata.labels['app.kubernetes.io/name'], 'holdfast-controller', name);
        const bound = binding.safeParse(object).data;
        // Accounts of people, which no pod has.
        if (bound === undefined || ['holdfast-view', 'holdfast-operate'].includes(bound.roleRef.name)) continue;
        assert.deepEqual(
          bound.subjects.map((subject) => subject.name),
          ['holdfast-controller'],
          name,
        );
        roles.push(`${object.kind} ${bound.roleRef.name}`);
      }
      assert.deepEqual(roles.sort(), [
        'ClusterRoleBinding holdfast',
        'ClusterRoleBinding holdfast-controller',
        'ClusterRoleBinding holdfast-controller-taints',
        'RoleBinding holdfast',
        'RoleBinding holdfast-controller',
      ]);
    }
    const account = (text: string) => template(objectsOf(text), 'DaemonSet holdfast').spec.serviceAccountName;
    assert.deepEqual([account(without), account(withController)], ['holdfast', 'holdfast-node']);
  });

  test('run where all nodes have the taint that only they take away', async () => {
    const controller = { enabled: true, tolerations: [{ key: 'mine', operator: 'Exists' }] };
    const own = { key: 'holdfast.csi.dev/quarantine', operator: 'Exists' };
    for (const [objects, tolerations] of [
      [files(['fleet/controller']), [own]],
      [objectsOf(await helm.template({ controller: { enabled: true } })), [own]],
      [objectsOf(await helm.template({ controller })), [own, ...controller.tolerations]],
    ] as const) {
      assert.deepEqual(template(objects, 'Deployment holdfast-controller').spec.tolerations, tolerations);
    }
  });

  test('have the labels of podLabels beside their own', async () => {
    const podLabels = { 'app.kubernetes.io/name': 'mine', tier: 'storage' };
    const objects = objectsOf(await helm.template({ controller: { enabled: true }, podLabels }));
    for (const [kind, name] of [
      ['Deployment', 'holdfast-controller'],
      ['DaemonSet', 'holdfast'],
    ] as const) {
      const labels = template(objects, `${kind} ${name}`).metadata?.labels;
      assert.deepEqual([labels?.['app.kubernetes.io/name'], labels?.['tier']], [name, 'storage'], name);
    }
  });

  test('have sidecars with more workers than calls one node can hold up', async () => {
    for (const objects of [
      files(['fleet/controller']),
      objectsOf(await helm.template({ controller: { enabled: true } })),
    ]) {
      const text = JSON.stringify(objects.get('Deployment holdfast-controller'));
      for (const [flag, times] of [
        ['--worker-threads=100', 2],
        ['--workers=100', 1],
      ] as const) {
        assert.equal(text.split(`"${flag}"`).length - 1, times, flag);
      }
    }
  });
});
