import assert from 'node:assert/strict';
import { closeSync, mkdirSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import { type StandaloneApiServer, startApiServer } from '../cluster/api-server.ts';
import { buildPrograms } from '../cluster/harness/programs.ts';
import { audience } from '../fleet/support/api-double.ts';
import { ControllerProcess } from '../fleet/support/controller-process.ts';
import { volumeOn } from '../fleet/support/fleet.ts';
import { spawnWithUs } from '../support/child.ts';
import { CallError } from '../support/client.ts';
import { DriverProcess } from '../support/driver.ts';
import { eventually } from '../support/eventually.ts';
import { Scratch } from '../support/scratch.ts';
import { objectsOf } from './objects.ts';

const namespace = 'holdfast-system';
const fleet = fileURLToPath(new URL('../../deploy/fleet', import.meta.url));
const kubeconfig = z.object({
  clusters: z.tuple([z.object({ cluster: z.object({ server: z.string(), 'certificate-authority': z.string() }) })]),
});

/**
 * The objects of deploy/fleet on a real API server: its accounts, rights and token reviews, with two real controllers
 * and two real drivers. What a kubelet does for them, to register the driver and to bring tokens, is done here.
 */
test('two controllers and two nodes, with the rights of deploy/fleet and no others', { timeout: 900_000 }, async () => {
  await using server = await startApiServer();
  using scratch = new Scratch('fleet-api');
  const { kubectl } = server;
  await kubectl.run(['apply', '--validate=strict', '-k', fleet]);
  for (const node of ['node-a', 'node-b', 'node-c']) await addNode(server, node);

  const text = readFileSync(server.kubeconfig, 'utf8');
  const { server: url, 'certificate-authority': authority } = kubeconfig.parse(JSON.parse(text)).clusters[0].cluster;
  const account = scratch.join('account');
  mkdirSync(account);
  writeFileSync(join(account, 'namespace'), namespace);
  writeFileSync(join(account, 'ca.crt'), readFileSync(authority));
  writeFileSync(join(account, 'token'), await kubectl.run(['-n', namespace, 'create', 'token', 'holdfast']));
  const environment = {
    HOLDFAST_API_SERVER: url,
    HOLDFAST_SERVICE_ACCOUNT_DIR: account,
    HOLDFAST_LINK_ADDRESS: '127.0.0.1:0',
  };
  // Both at once: one of them makes the Secret.
  const [first, second] = await Promise.all(
    ['first', 'second'].map((name) => ControllerProcess.startWith(scratch, name, environment)),
  );
  assert.ok(first && second);
  await using _first = first;
  await using _second = second;
  const secret = await kubectl.run([
    '-n',
    namespace,
    'get',
    'secret',
    'holdfast-controller',
    '-o',
    'jsonpath={.data.ca\\.crt}',
  ]);
  writeFileSync(scratch.join('ca.crt'), Buffer.from(secret, 'base64'));
  const controllers = [first, second].map(({ port }) => `127.0.0.1:${port}`).join(',');

  using scratchA = new Scratch('fleet-a');
  using scratchB = new Scratch('fleet-b');
  await using _a = await startNode('node-a', scratchA, await tokenOf(server, 'node-a'));
  await using b = await startNode('node-b', scratchB, await tokenOf(server, 'node-b'));
  for (const controller of [first, second]) {
    for (const node of ['node-a', 'node-b']) await controller.logged('told all', { node });
  }
  using one = first.connect();
  using other = second.connect();
  const { volume } = await one.controller.CreateVolume(volumeOn('node-b', 'pvc-1'));
  const volume_id = volume?.volume_id ?? '';
  await eventually(async () => {
    assert.equal((await other.controller.ControllerGetVolume({ volume_id })).volume?.volume_id, volume_id);
  });
  await provision(server, scratch, { url, authority, account, socketPath: first.socketPath });
  // node-c has the driver, and has not come; then its Node is no more.
  const never = { volume_id: 'vol-aaaaaaaaaaaaaaaaaaaaaaaaaa' };
  await assert.rejects(one.controller.DeleteVolume(never), isUnavailable(/node-c is away since/));
  await kubectl.run(['delete', 'node/node-c', 'csinode/node-c']);
  await eventually(async () => void (await one.controller.DeleteVolume(never)));

  // Its driver is gone, and the kubelet has taken it out of the CSINode; the label of the Node stays.
  await b.stop();
  await kubectl.run([
    'patch',
    'csinode',
    'node-b',
    '--type=json',
    '-p',
    '[{"op": "remove", "path": "/spec/drivers/0"}]',
  ]);
  await first.logged('a link has ended', { node: 'node-b' });
  await assert.rejects(one.controller.DeleteVolume(never), isUnavailable(/node-b is away since/));
  await assert.rejects(one.controller.DeleteVolume({ volume_id }), isUnavailable(/node-b is away since/));

  // With the token of another node, or of another account, nobody gets in.
  using scratchC = new Scratch('fleet-c');
  await using _c = await startNode('node-b', scratchC, await tokenOf(server, 'node-a'));
  await first.logged('a link has ended', { node: 'node-a', reason: 'it speaks for "node-b" with the token of node-a' });
  using scratchD = new Scratch('fleet-d');
  const unbound = await kubectl.run(['-n', namespace, 'create', 'token', 'holdfast-node', `--audience=${audience}`]);
  await using _d = await startNode('node-d', scratchD, unbound);
  await first.logged('a link was refused', { reason: 'The token is not bound to a pod on a node.' });

  function startNode(name: string, own: Scratch, token: string): Promise<DriverProcess> {
    writeFileSync(own.join('token'), token);
    return DriverProcess.start(own, {
      config: `pools:\n  default: { directory: ${own.join('pool')} }\n`,
      environment: {
        HOLDFAST_NODE_ID: name,
        HOLDFAST_CONTROLLER: controllers,
        HOLDFAST_CONTROLLER_CA: scratch.join('ca.crt'),
        HOLDFAST_CONTROLLER_TOKEN: own.join('token'),
      },
    });
  }
});

interface ProvisionerPlan {
  readonly url: string;
  readonly authority: string;
  readonly account: string;
  readonly socketPath: string;
}

/** The stock provisioner, as deploy/fleet runs it: a claim gets its volume on the node that the scheduler chose. */
async function provision(server: StandaloneApiServer, scratch: Scratch, plan: ProvisionerPlan): Promise<void> {
  const { kubectl } = server;
  const kubeconfigPath = scratch.join('kubeconfig');
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': 'cluster',
    contexts: [{ name: 'cluster', context: { cluster: 'cluster', user: 'holdfast', namespace } }],
    clusters: [{ name: 'cluster', cluster: { server: plan.url, 'certificate-authority': plan.authority } }],
    users: [{ name: 'holdfast', user: { tokenFile: join(plan.account, 'token') } }],
  };
  writeFileSync(kubeconfigPath, JSON.stringify(config));
  const programs = await buildPrograms(['csi-provisioner']);
  const log = openSync(scratch.join('provisioner.log'), 'a');
  // Whose the capacities are is what only a pod can ask.
  const args = provisionerArguments().map((argument) =>
    argument.replace('/csi/csi.sock', plan.socketPath).replace('ownerref-level=2', 'ownerref-level=-1'),
  );
  // In a pod it is that of the account.
  args.push(`--leader-election-namespace=${namespace}`);
  const child = spawnWithUs([join(programs, 'csi-provisioner'), `--kubeconfig=${kubeconfigPath}`, ...args], {
    stdio: ['ignore', log, log],
    env: { NAMESPACE: namespace, POD_NAME: 'holdfast-controller-1' },
  });
  closeSync(log);
  try {
    await kubectl.run(['create', 'namespace', 'default']).catch(() => undefined);
    // As the controller manager and the scheduler leave it.
    const annotations = {
      'volume.kubernetes.io/selected-node': 'node-a',
      'volume.kubernetes.io/storage-provisioner': 'holdfast.csi.dev',
    };
    const spec = {
      accessModes: ['ReadWriteOnce'],
      storageClassName: 'holdfast',
      resources: { requests: { storage: '64Mi' } },
    };
    const metadata = { name: 'data', namespace: 'default', annotations };
    await kubectl.apply([{ apiVersion: 'v1', kind: 'PersistentVolumeClaim', metadata, spec }]);
    await eventually(async () => {
      const volumes = await kubectl.run(['get', 'pv', '-o', 'json']);
      assert.match(volumes, /"node-a"/, readFileSync(scratch.join('provisioner.log'), 'utf8').slice(-3000));
      const capacities = await kubectl.run(['-n', namespace, 'get', 'csistoragecapacities', '-o', 'json']);
      for (const node of ['node-a', 'node-b']) assert.ok(capacities.includes(node), `no capacity of ${node}`);
    }, 120_000);
  } finally {
    child.kill('SIGKILL');
  }
}

function provisionerArguments(): string[] {
  const container = z.looseObject({ name: z.string(), args: z.array(z.string()).optional() });
  const deployment = z.object({
    spec: z.object({ template: z.object({ spec: z.object({ containers: z.array(container) }) }) }),
  });
  const object = objectsOf(readFileSync(join(fleet, 'controller.yaml'), 'utf8')).get('Deployment holdfast-controller');
  const { containers } = deployment.parse(object).spec.template.spec;
  return containers.find(({ name }) => name === 'csi-provisioner')?.args ?? [];
}

/** What a kubelet with the driver makes of itself, and the driver's pod there. */
async function addNode({ kubectl }: StandaloneApiServer, name: string): Promise<void> {
  const topologyKey = 'topology.holdfast.dev/node';
  const drivers = [{ name: 'holdfast.csi.dev', nodeID: name, topologyKeys: [topologyKey] }];
  const container = { name: 'holdfast', image: 'localhost/holdfast' };
  await kubectl.apply([
    { apiVersion: 'v1', kind: 'Node', metadata: { name, labels: { [topologyKey]: name } } },
    { apiVersion: 'storage.k8s.io/v1', kind: 'CSINode', metadata: { name }, spec: { drivers } },
    {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: `driver-${name}`, namespace },
      spec: { nodeName: name, serviceAccountName: 'holdfast-node', containers: [container] },
    },
  ]);
}

/** What the kubelet projects into the pod. */
function tokenOf({ kubectl }: StandaloneApiServer, node: string): Promise<string> {
  const bound = ['--bound-object-kind=Pod', `--bound-object-name=driver-${node}`, `--audience=${audience}`];
  return kubectl.run(['-n', namespace, 'create', 'token', 'holdfast-node', ...bound]);
}

function isUnavailable(message: RegExp) {
  return (error: unknown) => error instanceof CallError && error.code === 'UNAVAILABLE' && message.test(error.message);
}
