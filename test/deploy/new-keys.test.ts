import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { KubernetesApi } from '../../src/fleet/kubernetes/api.ts';
import { forgetNode, readForgotten } from '../../src/fleet/kubernetes/forgotten.ts';
import { startApiServer } from '../cluster/api-server.ts';
import { ControllerProcess } from '../fleet/support/controller-process.ts';
import { Scratch } from '../support/scratch.ts';
import { controllerEnvironment, makeAccount, namespace, writeAuthority } from './fleet-cluster.ts';

const project = (path: string) => fileURLToPath(new URL(`../../${path}`, import.meta.url));

/** By docs/security.md, on a real API server, with the rights of deploy/fleet. */
test('a controller makes new keys where the old ones were taken out of its Secret, and keeps its notes', {
  timeout: 300_000,
}, async () => {
  await using server = await startApiServer();
  using scratch = new Scratch('new-keys');
  const { kubectl } = server;
  await kubectl.run(['apply', '--validate=strict', '-k', project('deploy/fleet')]);
  const account = await makeAccount(server, scratch);
  const environment = controllerEnvironment(account);
  const trusted = async () => {
    await writeAuthority(server, scratch.join('ca.crt'));
    return readFileSync(scratch.join('ca.crt'), 'utf8');
  };
  const { directory, url } = account;
  const api = new KubernetesApi({
    url: new URL(url),
    authorityPath: `${directory}/ca.crt`,
    tokenPath: `${directory}/token`,
  });
  const place = { namespace, name: 'holdfast-controller' };
  try {
    const before = await (async () => {
      await using _first = await ControllerProcess.startWith(scratch, 'first', environment);
      return await trusted();
    })();
    assert.match(before, /^-----BEGIN CERTIFICATE/);
    await forgetNode(api, place, 'node-x');
    const command = /^kubectl (-n holdfast-system patch secret .*)$/m.exec(
      readFileSync(project('docs/security.md'), 'utf8'),
    )?.[1];
    assert.ok(command);
    await kubectl.run(command.replaceAll("'", '').split(' '));
    await using _second = await ControllerProcess.startWith(scratch, 'second', environment);
    const after = await trusted();
    assert.match(after, /^-----BEGIN CERTIFICATE/);
    assert.ok(!after.includes(before.trim()), 'the old authority is still believed');
    assert.deepEqual([...(await readForgotten(api, place)).keys()], ['node-x']);
  } finally {
    api.close();
  }
});
