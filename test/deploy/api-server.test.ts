import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { type StandaloneApiServer, startApiServer } from '../cluster/api-server.ts';
import { exampleFiles, levels, podsOf } from './examples.ts';
import { Helm } from './helm.ts';
import { usualValues } from './user-values.ts';

const deploy = fileURLToPath(new URL('../../deploy', import.meta.url));
const strict = ['--validate=strict'];
const onlyTry = [...strict, '--dry-run=server'];

/** The first ones belong to what comes later. */
const first = 'claim-and-pod.yaml';
const examples = [first, ...exampleFiles.filter((name) => name !== first)];

describe('A real API server takes', { timeout: 900_000 }, () => {
  let server: StandaloneApiServer;
  const kubectl = (parameters: readonly string[], input = '') => server.kubectl.run(parameters, { input });

  before(async () => {
    server = await startApiServer();
    // No controller manager makes it.
    await kubectl(['create', 'namespace', 'default']).catch(() => undefined);
  });
  after(() => server[Symbol.asyncDispose]());

  // Before there are classes and a CSIDriver, which cannot be changed.
  for (const [what, values] of Object.entries(usualValues)) {
    test(`what users write into values: ${what}`, async () => {
      const helm = await Helm.build();
      await kubectl(['apply', ...strict, '-f', join(deploy, 'base', 'namespace.yaml')]);
      await kubectl(['apply', ...onlyTry, '-f', '-'], await helm.template(values));
    });
  }

  for (const directory of [
    'node-sidecars',
    'one-node',
    'fleet',
    '.',
    'files',
    'disks',
    'snapshots',
    'group-snapshots',
    'attributes',
  ]) {
    test(`kubectl apply -k deploy/${directory}`, async () => {
      await kubectl(['apply', ...strict, '-f', join(deploy, 'base', 'namespace.yaml')]);
      await kubectl(['apply', ...onlyTry, '-k', join(deploy, directory)]);
      await kubectl(['apply', ...strict, '-k', join(deploy, directory)]);
      // A second time nothing changes: no field is one that the server alone decides.
      const again = await kubectl(['apply', ...strict, '-k', join(deploy, directory)]);
      assert.doesNotMatch(again, /configured|created/);
    });
  }

  test('every object of the chart', async () => {
    const helm = await Helm.build();
    const values = {
      poolDirectories: ['/srv/pool'],
      imagePullSecrets: [{ name: 'registry' }],
      storageClasses: [{ name: 'other', default: true, reclaimPolicy: 'Retain', mountOptions: ['noatime'] }],
      oneNode: true,
      snapshotClasses: { enabled: true, groups: true },
      volumeAttributesClasses: [{ name: 'other', parameters: { undelete: '1h' } }],
      networkPolicy: { enabled: true },
      priorityQuota: true,
      monitoring: { dashboard: { enabled: true } },
    };
    await kubectl(['apply', ...onlyTry, '-f', '-'], await helm.template());
    await kubectl(['apply', ...onlyTry, '-f', '-'], await helm.template(values));
    const fleet = { ...values, oneNode: false };
    await kubectl(['apply', ...onlyTry, '-f', '-'], await helm.template(fleet));
  });

  test('no other way of inline volumes than the CSIDriver was made with: it is to be deleted before', async () => {
    const helm = await Helm.build();
    const inlineVolumes = await helm.template({ inlineVolumes: true });
    await assert.rejects(kubectl(['apply', ...onlyTry, '-f', '-'], inlineVolumes), /volumeLifecycleModes.*immutable/s);
    const manifests = join(deploy, 'inline-volumes');
    await assert.rejects(kubectl(['apply', ...strict, '-k', manifests]), /volumeLifecycleModes.*immutable/s);
    await kubectl(['delete', 'csidriver', 'holdfast.csi.dev']);
    await kubectl(['apply', ...strict, '-k', manifests]);
    const modes = await kubectl([
      'get',
      'csidriver',
      'holdfast.csi.dev',
      '-o',
      'jsonpath={.spec.volumeLifecycleModes}',
    ]);
    assert.deepEqual(JSON.parse(modes), ['Persistent', 'Ephemeral']);
  });

  for (const name of examples) {
    test(`the example ${name}`, async () => {
      const file = join(deploy, 'examples', name);
      await kubectl(['apply', ...onlyTry, '-f', file]);
      await kubectl(['apply', ...strict, '-f', file]);
      // As its controllers would: only what is bound can be expanded and changed.
      if (name === 'claim-and-pod.yaml') await bind('notes');
      if (name === 'modify.yaml') await bind('ledger');
    });
  }

  for (const [level, names] of Object.entries(levels)) {
    test(`the pods of examples in a namespace that enforces ${level}`, async () => {
      await kubectl(['create', 'namespace', level]);
      await kubectl(['label', 'namespace', level, `pod-security.kubernetes.io/enforce=${level}`]);
      const create = ['create', ...onlyTry, '--namespace', level, '-f', '-'];
      const pods = names.flatMap(podsOf);
      assert.ok(pods.length > 0);
      for (const pod of pods) await kubectl(create, JSON.stringify(pod));
    });
  }

  test('no pod of those that cannot be in a namespace that enforces restricted', async () => {
    for (const pod of levels.baseline.flatMap(podsOf)) {
      const create = ['create', ...onlyTry, '--namespace', 'restricted', '-f', '-'];
      await assert.rejects(
        kubectl(create, JSON.stringify(pod)),
        /violates PodSecurity "restricted:latest": .*runAsNonRoot/,
      );
    }
  });

  test('the change that modify.yaml speaks of', async () => {
    await kubectl(['patch', 'pvc', 'ledger', '--patch', '{"spec": {"volumeAttributesClassName": "holdfast-thick"}}']);
  });

  test('nothing with a misspelled field', async () => {
    const claim = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'a' }, dta: {} };
    await assert.rejects(kubectl(['apply', ...onlyTry, '-f', '-'], JSON.stringify(claim)), /unknown field "dta"/);
  });

  async function bind(claim: string): Promise<void> {
    await kubectl(['patch', 'pvc', claim, '--patch', `{"spec": {"volumeName": "pv-${claim}"}}`]);
    const status = { phase: 'Bound', accessModes: ['ReadWriteOnce'], capacity: { storage: '1Gi' } };
    await kubectl(['patch', 'pvc', claim, '--subresource=status', '--patch', JSON.stringify({ status })]);
  }
});
