import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseConfig } from './config.ts';
import { parseControllerConfig } from './controller-config.ts';

const source = (environment: Record<string, string>) => ({
  environment,
  hostName: 'replica-1',
  readFile: () => 'storage\n',
});

test('in a pod a controller needs nothing but its socket', async () => {
  const parsed = await parseControllerConfig(
    source({
      CSI_ENDPOINT: 'unix:///csi/csi.sock',
      KUBERNETES_SERVICE_HOST: 'fd00::1',
      KUBERNETES_SERVICE_PORT: '443',
    }),
  );
  assert.ok('config' in parsed);
  const { api, eventsAfterMs, linkAddress, namespace, nodeUser, sendsCopies, taintQuarantine } = parsed.config;
  assert.deepEqual(
    [eventsAfterMs, taintQuarantine, sendsCopies],
    [undefined, undefined, false],
    'it needs rights, so it is off',
  );
  assert.equal(api.url.href, 'https://[fd00::1]/');
  assert.deepEqual(linkAddress, { host: undefined, port: 9443 });
  assert.deepEqual([namespace, nodeUser], ['storage', 'system:serviceaccount:storage:holdfast-node']);
});

test('every mistake is told at once', async () => {
  const parsed = await parseControllerConfig(
    source({
      HOLDFAST_API_SERVER: 'http://api',
      HOLDFAST_LINK_ADDRESS: 'here',
      HOLDFAST_NODE_ACCOUNT: 'A B',
      HOLDFAST_EVENTS_AFTER: '0',
      HOLDFAST_TAINT_QUARANTINE: 'NoExecute',
      HOLDFAST_SEND_COPIES: 'yes',
      HOLDFAST_ATTACH: 'yes',
    }),
  );
  assert.ok('problems' in parsed);
  const names = parsed.problems.map((problem) => problem.split(/[: ]/)[0]);
  assert.deepEqual(names.sort(), [
    'CSI_ENDPOINT',
    'HOLDFAST_API_SERVER',
    'HOLDFAST_ATTACH',
    'HOLDFAST_EVENTS_AFTER',
    'HOLDFAST_LINK_ADDRESS',
    'HOLDFAST_NODE_ACCOUNT',
    'HOLDFAST_SEND_COPIES',
    'HOLDFAST_TAINT_QUARANTINE',
  ]);
});

test('who runs it in no pod is told which file is not there', async () => {
  const readFile = (path: string) => {
    throw Object.assign(new Error(`ENOENT: no such file or directory, open '${path}'`), { code: 'ENOENT' });
  };
  const parsed = await parseControllerConfig({ ...source({ CSI_ENDPOINT: 'unix:///csi/csi.sock' }), readFile });
  assert.ok('problems' in parsed);
  const file = '/var/run/secrets/kubernetes.io/serviceaccount/namespace';
  assert.ok(parsed.problems.includes(`HOLDFAST_SERVICE_ACCOUNT_DIR: name a file that is there: there is no ${file}`));
});

test('a node is told where the controllers are', async () => {
  const told = await parseConfig(
    source({ HOLDFAST_CONTROLLER: 'holdfast-controller.ns.svc:9443, 10.0.0.1:1,[fd00::1]:2' }),
  );
  assert.ok('config' in told);
  assert.deepEqual(told.config.link?.controllers, [
    { host: 'holdfast-controller.ns.svc', port: 9443 },
    { host: '10.0.0.1', port: 1 },
    { host: 'fd00::1', port: 2 },
  ]);
  const none = await parseConfig(source({}));
  assert.ok('config' in none);
  assert.equal(none.config.link, undefined);
  for (const wrong of ['controller', 'controller:0', 'controller:70000', ':9443', 'a b:1']) {
    const parsed = await parseConfig(source({ HOLDFAST_CONTROLLER: wrong }));
    assert.ok('problems' in parsed, wrong);
    assert.match(parsed.problems.join(), /^HOLDFAST_CONTROLLER: /);
  }
});
