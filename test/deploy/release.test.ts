import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import { type StandaloneApiServer, startApiServer } from '../cluster/api-server.ts';
import { Helm, namespace, type Values } from './helm.ts';
import { objectsOf } from './objects.ts';
import { Release } from './release.ts';

const base = fileURLToPath(new URL('../../deploy/base', import.meta.url));

/** Of all that the chart can make without the kinds of the Prometheus operator. */
const kinds = [
  ...[
    'daemonsets',
    'deployments',
    'services',
    'networkpolicies',
    'poddisruptionbudgets',
    'configmaps',
    'serviceaccounts',
    'roles',
    'rolebindings',
    'clusterroles',
    'clusterrolebindings',
  ],
  ...['csidrivers', 'storageclasses', 'volumesnapshotclasses', 'volumegroupsnapshotclasses', 'volumeattributesclasses'],
];
const list = z.object({
  items: z.array(
    z.looseObject({
      kind: z.string(),
      metadata: z.looseObject({
        deletionTimestamp: z.string().optional(),
        name: z.string(),
        annotations: z.record(z.string(), z.string()).default({}),
      }),
    }),
  ),
});

const first: Values = { snapshotClasses: { enabled: true } };
/** Something of each kind is changed, is new, or is there no more. */
const second: Values = {
  image: { tag: '9.9.9' },
  dataDir: '/data/holdfast',
  poolDirectories: ['/srv/fast'],
  config: { pools: { fast: { directory: '/srv/fast/pool' } }, defaultPool: 'fast' },
  podLabels: { tier: 'storage' },
  storageClasses: [{ name: 'fast', parameters: { 'csi.storage.k8s.io/fstype': 'xfs' } }],
  oneNode: true,
  snapshotClasses: { enabled: true, groups: true },
  volumeAttributesClasses: [{ name: 'thick', parameters: { provisioning: 'thick' } }],
  monitoring: { port: 0 },
};
/** Parameters of a class can never be changed, which the API server says when other objects have been changed already. */
const refused: Values = {
  ...second,
  volumeAttributesClasses: [],
  storageClasses: [{ name: 'holdfast', parameters: { 'csi.storage.k8s.io/fstype': 'btrfs' } }],
};

describe('Release of the chart, on a real API server', { timeout: 900_000 }, () => {
  let helm: Helm;
  let server: StandaloneApiServer;
  let release: Release;
  let installed: Map<string, unknown>;

  before(async () => {
    helm = await Helm.build();
    server = await startApiServer();
    release = new Release({ helm, kubeconfig: server.kubeconfig });
    await server.kubectl.run(['apply', '-f', join(base, 'namespace.yaml')]);
  });
  after(() => server[Symbol.asyncDispose]());

  test('install: the objects of the chart', async () => {
    await release.install(first);
    installed = await objects();
    await assertObjectsOf(first);
  });

  test('upgrade: the objects of the chart with the new values, and no others', async () => {
    await release.upgrade(second);
    await assertObjectsOf(second);
    assert.notDeepEqual(await objects(), installed);
  });

  test('rollback: all is as it was', async () => {
    await release.rollback(1);
    assert.deepEqual(await objects(), installed);
  });

  test('an upgrade that the API server refuses half way: rolled back, all is as it was', async () => {
    const upgrade = release.upgrade(refused, '--rollback-on-failure', '--timeout', '60s');
    const settled = upgrade.then(
      () => true,
      () => true,
    );
    // As its controller would: helm waits until that has seen the change.
    while (!(await Promise.race([settled, observe()])));
    await assert.rejects(upgrade, /field is immutable/);
    assert.deepEqual(await objects(), installed);
    assert.deepEqual((await release.history()).slice(2), ['superseded', 'failed', 'deployed']);
  });

  test('uninstall: nothing of it is left, and what it never made is', async () => {
    const volume = {
      apiVersion: 'v1',
      kind: 'PersistentVolume',
      metadata: { name: 'kept' },
      spec: {
        capacity: { storage: '1Gi' },
        accessModes: ['ReadWriteOnce'],
        storageClassName: 'holdfast',
        csi: { driver: 'holdfast.csi.dev', volumeHandle: 'vol-a' },
      },
    };
    await server.kubectl.apply([volume]);
    await release.uninstall();
    assert.deepEqual([...(await objects()).keys()], []);
    await server.kubectl.run(['get', 'persistentvolume', 'kept']);
    await server.kubectl.run(['get', 'namespace', namespace]);
  });

  /** What helm has made, by kind and name, without what the server alone decides. */
  async function objects(): Promise<Map<string, unknown>> {
    const parameters = ['--namespace', namespace, '--selector', 'app.kubernetes.io/managed-by=Helm', '-o', 'json'];
    const { items } = list.parse(JSON.parse(await server.kubectl.run(['get', kinds.join(','), ...parameters])));
    // A VolumeAttributesClass that was deleted stays until a controller, which is not here, says that nobody uses it.
    const live = items.filter(({ metadata }) => metadata.deletionTimestamp === undefined);
    return new Map(
      live.map(({ metadata, status: _, ...rest }) => {
        const { annotations, labels, name } = metadata;
        const { 'deprecated.daemonset.template.generation': _generation, ...kept } = annotations;
        return [`${rest.kind} ${name}`, { ...rest, labels, annotations: kept }];
      }),
    );
  }

  async function observe(): Promise<false> {
    const there = { replicas: 2, updatedReplicas: 2, readyReplicas: 2, availableReplicas: 2 };
    const conditions = [
      { type: 'Available', status: 'True' },
      { type: 'Progressing', status: 'True', reason: 'NewReplicaSetAvailable' },
    ];
    for (const [kind, name, status] of [
      ['daemonset', 'holdfast', {}],
      ['deployment', 'holdfast-controller', { ...there, conditions }],
      ['poddisruptionbudget', 'holdfast-controller', {}],
    ] as const) {
      const place = [kind, name, '--namespace', namespace];
      const shown = ['--ignore-not-found', '-o', 'jsonpath={.metadata.generation}'];
      const generation = await server.kubectl.run(['get', ...place, ...shown]);
      if (generation === '') continue;
      const patch = JSON.stringify({ status: { ...status, observedGeneration: Number(generation) } });
      await server.kubectl.run(['patch', ...place, '--subresource=status', '--type=merge', '--patch', patch]);
    }
    return false;
  }

  async function assertObjectsOf(values: Values): Promise<void> {
    const text = await helm.template(values);
    assert.deepEqual([...(await objects()).keys()].sort(), [...objectsOf(text).keys()].sort());
    // Nothing would change if they were applied: kubectl diff fails if it would.
    await server.kubectl.run(['diff', '--server-side', '--force-conflicts', '-f', '-'], { input: text });
  }
});
