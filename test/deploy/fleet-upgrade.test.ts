import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import { startApiServer } from '../cluster/api-server.ts';
import { ControllerProcess } from '../fleet/support/controller-process.ts';
import { DriverProcess } from '../support/driver.ts';
import { eventually } from '../support/eventually.ts';
import { Scratch } from '../support/scratch.ts';
import {
  addNode,
  claimOn,
  controllerEnvironment,
  makeAccount,
  namespace,
  Provisioner,
  provisionerArguments,
  tokenOf,
  writeAuthority,
} from './fleet-cluster.ts';

const project = (path: string) => fileURLToPath(new URL(`../../${path}`, import.meta.url));
const guide = readFileSync(project('docs/fleet.md'), 'utf8');

/** A command of the guide, which has to be there as it is run. */
function documented(command: string): string[] {
  assert.ok(guide.includes(`kubectl ${command}`), `docs/fleet.md has no: kubectl ${command}`);
  return command.replaceAll("'", '').split(' ');
}

const items = z.object({ items: z.array(z.looseObject({ metadata: z.looseObject({ name: z.string() }) })) });
const daemonSet = z.object({
  metadata: z.object({ uid: z.string() }),
  spec: z.object({
    template: z.object({
      spec: z.object({ serviceAccountName: z.string(), containers: z.array(z.looseObject({ name: z.string() })) }),
    }),
  }),
});

/**
 * From sidecars on each node to one controller, by the commands of docs/fleet.md, on a real API server, with real drivers and
 * the stock provisioner. No kubelets: what a rollout does to pods is done by hand.
 */
test('from sidecars on each node to the controller, with volumes that are there', { timeout: 900_000 }, async () => {
  await using server = await startApiServer();
  using scratch = new Scratch('fleet-upgrade');
  using node = new Scratch('fleet-upgrade-node');
  const { kubectl } = server;
  await kubectl.run(['create', 'namespace', 'default']).catch(() => undefined);
  await kubectl.run(['apply', '-k', project('deploy/node-sidecars')]);
  const oldAccount = await makeAccount(server, scratch, 'holdfast');
  const before = await showDaemonSet();

  const config = `pools:\n  default: { directory: ${node.join('pool')} }\n`;
  const HOLDFAST_NODE_ID = 'node-a';
  const old = await DriverProcess.start(node, { config, environment: { HOLDFAST_NODE_ID } });
  const oldProvisioner = await Provisioner.start(scratch, 'old', {
    account: oldAccount,
    socketPath: old.socketPath,
    args: provisionerArguments(project('deploy/base/daemon-set.yaml'), 'DaemonSet holdfast'),
    environment: { POD_NAME: 'driver-node-a', NODE_NAME: 'node-a' },
  });
  try {
    await addNode(server, 'node-a').catch(() => undefined);
    await kubectl.apply([claimOn('node-a', 'old')]);
    await eventually(async () => {
      assert.equal((await volumesOf('old')).length, 1, oldProvisioner.log());
      assert.notEqual((await capacities()).length, 0);
    }, 120_000);
    const stale = await capacities();
    const [volume] = await volumesOf('old');

    // First the controller alone. Nothing on the nodes changes.
    await kubectl.run(here(documented('apply -k deploy -l app.kubernetes.io/name=holdfast-controller')));
    assert.deepEqual(await showDaemonSet(), before);
    const account = await makeAccount(server, scratch);
    await using controller = await ControllerProcess.startWith(scratch, 'controller', controllerEnvironment(account));
    await using provisioner = await Provisioner.start(scratch, 'new', {
      account,
      socketPath: controller.socketPath,
      args: provisionerArguments(project('deploy/fleet/controller.yaml'), 'Deployment holdfast-controller'),
      environment: { POD_NAME: 'holdfast-controller-1' },
    });
    // Both are there. Each claim gets one volume.
    await kubectl.apply([claimOn('node-a', 'between')]);
    await eventually(async () => assert.equal((await volumesOf('between')).length, 1), 120_000);

    // Then the rest: the same DaemonSet, whose pods have the driver alone.
    await kubectl.run(here(documented('apply -k deploy')));
    const after = await showDaemonSet();
    assert.equal(after.metadata.uid, before.metadata.uid, 'it is not made anew, which would end all its pods at once');
    const { containers, serviceAccountName } = after.spec.template.spec;
    assert.deepEqual([serviceAccountName, containers.map(({ name }) => name)], ['holdfast-node', ['holdfast']]);
    await oldProvisioner[Symbol.asyncDispose]();
    await old.stop();
    await addNode(server, 'node-a');
    writeFileSync(node.join('token'), await tokenOf(server, 'node-a'));
    await writeAuthority(server, node.join('ca.crt'));
    await using _driver = await DriverProcess.start(node, {
      config,
      environment: {
        HOLDFAST_NODE_ID,
        HOLDFAST_CONTROLLER: `127.0.0.1:${controller.port}`,
        HOLDFAST_CONTROLLER_CA: node.join('ca.crt'),
        HOLDFAST_CONTROLLER_TOKEN: node.join('token'),
      },
    });
    await controller.logged('linked', { node: 'node-a' });

    await kubectl.apply([claimOn('node-a', 'new')]);
    await eventually(async () => assert.equal((await volumesOf('new')).length, 1, provisioner.log()), 120_000);
    // What the old provisioners have told the scheduler nobody changes any more.
    await eventually(async () => assert.ok((await capacities()).some((name) => !stale.includes(name))), 120_000);
    const left = `-n ${namespace} delete csistoragecapacities -l 'csi.storage.k8s.io/managed-by!=external-provisioner'`;
    await kubectl.run(documented(left));
    const remaining = await capacities();
    assert.ok(remaining.length > 0 && remaining.every((name) => !stale.includes(name)), remaining.join());

    // A volume from before is deleted through the controller.
    const status = JSON.stringify({ status: { phase: 'Released' } });
    await kubectl.run(['delete', 'pvc', '-n', 'default', 'old', '--wait=false']);
    await kubectl.run(['patch', 'pv', `${volume}`, '--subresource=status', '--patch', status]);
    using client = controller.connect();
    const deleted = ['get', 'pv', `${volume}`, '-o', 'jsonpath={.metadata.deletionTimestamp}'];
    await eventually(async () => {
      // Its last finalizer is the controller manager's.
      assert.notEqual(await kubectl.run(deleted), '', provisioner.log());
      assert.equal((await client.controller.ListVolumes({})).entries.length, 2);
    }, 120_000);
  } finally {
    await oldProvisioner[Symbol.asyncDispose]();
    await old.stop().catch(() => undefined);
  }

  async function showDaemonSet() {
    return daemonSet.parse(
      JSON.parse(await kubectl.run(['-n', namespace, 'get', 'daemonset', 'holdfast', '-o', 'json'])),
    );
  }

  async function capacities(): Promise<string[]> {
    const text = await kubectl.run(['-n', namespace, 'get', 'csistoragecapacities', '-o', 'json']);
    return items.parse(JSON.parse(text)).items.map(({ metadata }) => metadata.name);
  }

  async function volumesOf(claim: string): Promise<string[]> {
    const { items: volumes } = z
      .object({
        items: z.array(
          z.object({
            metadata: z.object({ name: z.string() }),
            spec: z.object({ claimRef: z.object({ name: z.string() }) }),
          }),
        ),
      })
      .parse(JSON.parse(await kubectl.run(['get', 'pv', '-o', 'json'])));
    return volumes.filter(({ spec }) => spec.claimRef.name === claim).map(({ metadata }) => metadata.name);
  }
});

/** The guide is read in the project's directory. */
function here(parameters: readonly string[]): string[] {
  return parameters.map((word) => (word === 'deploy' || word.startsWith('deploy/') ? join(project('.'), word) : word));
}
