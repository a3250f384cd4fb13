import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { parse } from 'yaml';
import { z } from 'zod';
import { chartReadme, valuesPage } from '../../scripts/chart-values.ts';
import { parseConfigFile } from '../../src/config/file.ts';
import { CommandError } from '../cluster/harness/command.ts';
import { chart, Helm, namespace, releaseName } from './helm.ts';
import { objectsOf } from './objects.ts';
import { brokenValues, usualValues } from './user-values.ts';

const production = fileURLToPath(new URL('../../deploy/examples/values/production.yaml', import.meta.url));
const network = fileURLToPath(new URL('../../deploy/examples/values/network.yaml', import.meta.url));
const places = { dataDirectory: '/var/lib/holdfast', kubeletDirectory: '/var/lib/kubelet' };
const configMap = z.looseObject({ data: z.record(z.string(), z.string()) });

describe('the chart', () => {
  let helm: Helm;
  before(async () => {
    helm = await Helm.build();
  });

  const usual = {
    ...usualValues,
    'docs/production.md': parse(readFileSync(production, 'utf8')),
    'docs/nfs.md': parse(readFileSync(network, 'utf8')),
  };
  for (const [what, values] of Object.entries(usual)) {
    test(`takes what users write: ${what}`, async () => {
      const objects = objectsOf(await helm.template(values));
      for (const [name, object] of objects) {
        if (!/^ConfigMap holdfast(-nvme|-plain|-files|-disks)?$/.test(name)) continue;
        const text = configMap.parse(object).data['holdfast.yaml'] ?? '';
        assert.ok('file' in parseConfigFile(text, places), text);
      }
    });
  }

  for (const [what, values, sentence, kubeVersion] of brokenValues) {
    test(`refuses ${what}, in one sentence`, async () => {
      const told = await helm.template(values, kubeVersion).then(
        () => assert.fail('the chart takes it'),
        (error: unknown) => (error instanceof CommandError ? error.stderr : assert.fail(String(error))),
      );
      const [line = ''] = told.split('\n');
      assert.equal(line.replace(/^Error: execution error at \(\S+\): /, ''), sentence);
      assert.doesNotMatch(told.split('\n')[1] ?? '', /\S/, 'one mistake, one sentence');
      assert.ok(sentence.length <= 240, `${sentence.length} characters`);
    });
  }

  test('has its values in its README (node scripts/chart-values.ts writes it)', () => {
    assert.equal(readFileSync(valuesPage, 'utf8'), chartReadme());
  });

  test('has a test of its own, which the pod security level restricted lets be', async () => {
    const text = await helm.run([
      'template',
      releaseName,
      chart,
      '--namespace',
      namespace,
      '--show-only',
      'templates/tests/volume.yaml',
    ]);
    assert.match(text, /helm\.sh\/hook: test/);
    assert.match(text, /storageClassName: holdfast$/m);
    assert.match(text, /runAsNonRoot: true/);
    const none = helm.run(['template', releaseName, chart], { storageClasses: [] });
    assert.doesNotMatch(await none, /holdfast-test/);
  });

  test('lets who makes volumes read the Secrets of encrypted classes, and no others', async () => {
    const of = async (account: object) => {
      const values = {
        ...usualValues['production: encrypted, snapshots, groups, attributes, network policy, dashboard'],
        ...account,
      };
      const objects = objectsOf(await helm.template(values));
      return JSON.stringify([objects.get('Role holdfast-keys'), objects.get('RoleBinding holdfast-keys')]);
    };
    const byController = await of({});
    assert.match(byController, /"resourceNames":\["volume-key"\],"verbs":\["get"\]/);
    assert.match(byController, /"name":"holdfast-controller","namespace":"holdfast-system"/);
    assert.match(await of({ oneNode: true }), /"kind":"ServiceAccount","name":"holdfast","namespace"/);
    for (const what of ['nothing at all', 'a Secret for each claim']) {
      assert.ok(!(await helm.template(usualValues[what])).includes('holdfast-keys'), what);
    }
  });
});
