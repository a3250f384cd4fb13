import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { type StandaloneApiServer, startApiServer } from '../cluster/api-server.ts';
import { Helm } from './helm.ts';

const deploy = fileURLToPath(new URL('../../deploy', import.meta.url));
const strict = ['--validate=strict'];
const onlyTry = [...strict, '--dry-run=server'];

/** The first ones belong to what comes later. */
const examples = ['claim-and-pod.yaml', ...readdirSync(join(deploy, 'examples')).filter(isExample).sort()];

function isExample(name: string): boolean {
  return name.endsWith('.yaml') && name !== 'claim-and-pod.yaml';
}

describe('A real API server takes', { timeout: 900_000 }, () => {
  let server: StandaloneApiServer;
  const kubectl = (parameters: readonly string[], input = '') => server.kubectl.run(parameters, { input });

  before(async () => {
    server = await startApiServer();
    // No controller manager makes it.
    await kubectl(['create', 'namespace', 'default']).catch(() => undefined);
  });
  after(() => server[Symbol.asyncDispose]());

  for (const directory of ['.', 'one-node', 'fleet', 'snapshots', 'group-snapshots', 'attributes']) {
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
  });

  test('no other way of inline volumes than the CSIDriver was made with: it is to be deleted before', async () => {
    const helm = await Helm.build();
    const without = await helm.template({ inlineVolumes: false });
    await assert.rejects(kubectl(['apply', ...onlyTry, '-f', '-'], without), /volumeLifecycleModes.*immutable/s);
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
