import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { pino } from 'pino';
import { shapes } from '../../src/cli/output/shapes.ts';
import { FleetState } from '../../src/fleet/controller/fleet-state.ts';
import { GoneNodes } from '../../src/fleet/controller/keepers/gone-nodes.ts';
import { taintKeyOf } from '../../src/fleet/controller/keepers/quarantine-keeper.ts';
import { KubernetesApi } from '../../src/fleet/kubernetes/api.ts';
import { persistentVolumes } from '../../src/fleet/kubernetes/persistent-volumes.ts';
import { setTaint } from '../../src/fleet/kubernetes/taints.ts';
import { VolumeRecords } from '../../src/fleet/kubernetes/volume-records.ts';
import { type StandaloneApiServer, startApiServer } from '../cluster/api-server.ts';
import { freePort } from '../cluster/harness/api-server.ts';
import { runToEnd } from '../cluster/harness/command.ts';
import { audience } from '../fleet/support/api-double.ts';
import { ControllerProcess } from '../fleet/support/controller-process.ts';
import { volumeOn } from '../fleet/support/fleet.ts';
import { CallError } from '../support/client.ts';
import { DriverProcess, driverCommand } from '../support/driver.ts';
import { eventually } from '../support/eventually.ts';
import { monitored } from '../support/monitoring.ts';
import { Scratch } from '../support/scratch.ts';
import {
  type Account,
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
import { ownAddress, seeByPlugin } from './kubectl-plugin.ts';

const fleet = fileURLToPath(new URL('../../deploy/fleet', import.meta.url));

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

  const account = await makeAccount(server, scratch);
  const environment = {
    ...controllerEnvironment(account),
    ...monitored,
    HOLDFAST_VIEW_ADDRESS: `${ownAddress()}:0`,
    HOLDFAST_EVENTS_AFTER: '1s',
  };
  // Both at once: one of them makes the Secret.
  const [first, second] = await Promise.all(
    ['first', 'second'].map((name) => ControllerProcess.startWith(scratch, name, environment)),
  );
  assert.ok(first && second);
  await using _first = first;
  await using _second = second;
  await writeAuthority(server, scratch.join('ca.crt'));
  const controllers = [first, second].map(({ port }) => `127.0.0.1:${port}`).join(',');

  using scratchA = new Scratch('fleet-a');
  using scratchB = new Scratch('fleet-b');
  await using a = await startNode('node-a', scratchA, await tokenOf(server, 'node-a'));
  await using b = await startNode('node-b', scratchB, await tokenOf(server, 'node-b'));
  for (const controller of [first, second]) {
    for (const node of ['node-a', 'node-b']) await controller.logged('inventory complete', { node });
  }
  using one = first.connect();
  using other = second.connect();
  const { volume } = await one.controller.CreateVolume(volumeOn('node-b', 'pvc-1'));
  const volume_id = volume?.volume_id ?? '';
  await eventually(async () => {
    assert.equal((await other.controller.ControllerGetVolume({ volume_id })).volume?.volume_id, volume_id);
  });
  await provision(server, scratch, account, first.socketPath);
  await seeByPlugin({ server, scratch, controller: first, account });
  await taint();
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

  await loseNodeA();

  /** By docs/node-loss.md. */
  async function loseNodeA(): Promise<void> {
    assert.ok(first && second);
    const latePort = await freePort();
    await using _b = await startNode('node-b', scratchB, await tokenOf(server, 'node-b'), [latePort]);
    const handle = await kubectl.run(['get', 'pv', '-o', 'jsonpath={.items[0].spec.csi.volumeHandle}']);
    assert.match(handle, /^vol-/);
    assert.match(await forget(['--dry-run', 'node-a']), new RegExp(`default/data .*Delete +${handle}`));
    await assert.rejects(forget(['node-a']), /Node node-a has a link/);
    // The controller manager would do that.
    const pv = await kubectl.run(['get', 'pv', '-o', 'jsonpath={.items[0].metadata.name}']);
    await kubectl.run(['patch', 'pv', pv, '--subresource=status', '-p', '{"status": {"phase": "Bound"}}']);
    await a.stop();
    await eventually(async () => {
      await assert.rejects(forget(['node-a']), /Node node-a is still there: kubectl delete node/);
    }, 60_000);
    await claimIsTold(/Warning +NodeAway .*The volume is on node node-a, which is away since 2/);
    await kubectl.run([...documented('kubectl delete node NAME'), 'csinode/node-a']);
    await eventually(async () => {
      await assert.rejects(other.controller.DeleteVolume({ volume_id: handle }), isUnavailable(/is on node-a by its/));
    }, 60_000);
    await forgetByClass(handle, latePort);
    const listed = JSON.parse(await runForget(['--dry-run', '--json', 'node-a']));
    assert.deepEqual(shapes['forget-node'].strict().parse(listed), listed);
    assert.deepEqual([listed.done, listed.volumes[0].id], ['nothing', handle]);
    assert.match(await forget(['node-a']), /Node node-a is forgotten/);
    for (const client of [one, other]) {
      await eventually(async () => void (await client.controller.DeleteVolume({ volume_id: handle })), 60_000);
    }

    // It is back, with all that it had; and nobody listens to it until somebody says so.
    await addNode(server, 'node-a');
    await using _back = await startNode('node-a', scratchA, await tokenOf(server, 'node-a'));
    const reason =
      'Node node-a was forgotten. To accept it again with its volumes: holdfast forget-node --undo node-a.';
    await first.logged('a link was refused', { reason });
    await second.logged('a link was refused', { reason });
    await forget(['--undo', 'node-a']);
    await eventually(async () => {
      const { entries } = await one.controller.ListVolumes({});
      assert.ok(entries.some((entry) => entry.volume?.volume_id === handle));
    }, 60_000);
  }

  /** A day is counted in the real Secret, by a replica for which it goes by quickly; the others go by what is noted. */
  async function forgetByClass(volume_id: string, latePort: number): Promise<void> {
    const [api, state] = [accountApi(), new FleetState()];
    state.expect(['node-b']);
    let nowMs = 0;
    const log = pino({ level: 'silent' });
    const place = { namespace, name: 'holdfast-controller' };
    const gone = new GoneNodes({ api, place, state, log, driverName: 'holdfast.csi.dev', now: () => nowMs });
    const [record] = await new VolumeRecords(() => persistentVolumes(api, 'holdfast.csi.dev')).of(volume_id);
    const [pv, className] = [record?.name ?? '', record?.className ?? ''];
    const patch = (phase: string) =>
      kubectl.run(['patch', 'pv', pv, '--subresource=status', '-p', JSON.stringify({ status: { phase } })]);
    const classWith = async (parameters: object) => {
      const { metadata: _gone, ...original } = JSON.parse(await kubectl.run(['get', 'sc', className, '-o', 'json']));
      await kubectl.run(['delete', 'sc', className]);
      await kubectl.apply([{ ...original, metadata: { name: className }, parameters }]);
    };
    const waits = () =>
      assert.rejects(one.controller.DeleteVolume({ volume_id }), isUnavailable(/is on node-a by its/));
    try {
      await classWith({ forgetNodeAfter: '1d' });
      await patch('Released');
      const records = await new VolumeRecords(() => persistentVolumes(api, 'holdfast.csi.dev')).of(volume_id);
      for (; nowMs <= 24 * 60 * 60_000; nowMs += 15 * 60_000) {
        assert.equal(await gone.mayForget(records), false);
        await gone.look();
      }
      await patch('Bound');
      await waits();
      await patch('Released');
      // These have met the node themselves, and look again minutes later; one that was started since has not.
      await waits();
      const late = { ...environment, HOLDFAST_LINK_ADDRESS: `127.0.0.1:${latePort}` };
      await using third = await ControllerProcess.startWith(scratch, 'third', late);
      await third.logged('inventory complete', { node: 'node-b' });
      using latest = third.connect();
      await latest.controller.DeleteVolume({ volume_id });
      await classWith({});
      await assert.rejects(latest.controller.DeleteVolume({ volume_id }), isUnavailable(/is on node-a by its/));
    } finally {
      api.close();
    }
  }

  function accountApi(): KubernetesApi {
    const at = (name: string) => join(account.directory, name);
    return new KubernetesApi({ url: new URL(account.url), authorityPath: at('ca.crt'), tokenPath: at('token') });
  }

  /** As whoever uses the claim sees it; once, though there are two controllers. */
  async function claimIsTold(line: RegExp): Promise<void> {
    await eventually(async () => {
      const lines = (await kubectl.run(['-n', 'default', 'describe', 'pvc', 'data'])).split('\n');
      assert.equal(lines.filter((one) => line.test(one)).length, 1, lines.join('\n'));
    }, 120_000);
  }

  /** By docs/node-loss.md: the right to taint nodes, and what else is on them stays. */
  async function taint(): Promise<void> {
    const api = accountApi();
    const key = taintKeyOf('holdfast.csi.dev');
    const give = (effect: 'NoSchedule' | undefined) => setTaint(api, 'node-b', { key, effect });
    const taints = async () => kubectl.run(['get', 'node', 'node-b', '-o', 'jsonpath={.spec.taints[*].key}']);
    try {
      await kubectl.run(['taint', 'node', 'node-b', 'example.org/x:NoSchedule', 'example.org/x:NoExecute']);
      const before = await taints();
      await assert.rejects(give('NoSchedule'), /forbidden/);
      await kubectl.run(['apply', '-f', written('kubectl apply -f deploy/fleet/taint-quarantine.yaml', 'deploy')]);
      // The API server hears of rights a moment later.
      await eventually(async () => void (await give('NoSchedule')));
      assert.deepEqual((await taints()).split(' ').sort(), [...before.split(' '), key].sort());
      assert.equal((await give('NoSchedule')).isNew, false);
      // Others change the node at the same time.
      const labels = Array.from({ length: 5 }, (_, index) => ['label', 'node', 'node-b', `example.org/${index}=x`]);
      await Promise.all([give(undefined), ...labels.map((label) => kubectl.run(label))]);
      assert.match(before, /example.org\/x.*example.org\/x/);
      assert.equal(await taints(), before);
      await kubectl.run(['taint', 'node', 'node-b', 'example.org/x-']);
      assert.equal((await give(undefined)).isNew, false);
    } finally {
      api.close();
    }
    const setEnv = 'kubectl -n holdfast-system set env deployment/holdfast-controller -c holdfast';
    for (const variable of ['HOLDFAST_EVENTS_AFTER=5m', 'HOLDFAST_TAINT_QUARANTINE=NoSchedule']) {
      written(`${setEnv} ${variable}`, '');
      await kubectl.run([...setEnv.split(' ').slice(1), variable]);
    }
  }

  /** `holdfast forget-node`, as it is run in the first controller's container. */
  async function forget(parameters: readonly string[]): Promise<string> {
    const [flag = ''] = parameters.length > 1 ? parameters : [];
    documented(
      `kubectl -n holdfast-system exec deployment/holdfast-controller -c holdfast -- holdfast forget-node ${flag} NAME`,
    );
    return runForget(parameters);
  }

  async function runForget(parameters: readonly string[]): Promise<string> {
    const { port } = (await first?.logged('listening for monitoring')) ?? {};
    const [program = '', ...own] = driverCommand;
    return runToEnd(program, [...own, 'forget-node', ...parameters], {
      env: {
        ...environment,
        PATH: process.env['PATH'] ?? '',
        CSI_ENDPOINT: `unix://${first?.socketPath}`,
        HOLDFAST_HTTP_ADDRESS: `127.0.0.1:${port}`,
      },
    });
  }

  function startNode(
    name: string,
    own: Scratch,
    token: string,
    latePorts: readonly number[] = [],
  ): Promise<DriverProcess> {
    writeFileSync(own.join('token'), token);
    return DriverProcess.start(own, {
      config: `pools:\n  default: { directory: ${own.join('pool')} }\n`,
      environment: {
        HOLDFAST_NODE_ID: name,
        HOLDFAST_CONTROLLER: [controllers, ...latePorts.map((port) => `127.0.0.1:${port}`)].join(','),
        HOLDFAST_CONTROLLER_CA: scratch.join('ca.crt'),
        HOLDFAST_CONTROLLER_TOKEN: own.join('token'),
      },
    });
  }
});

/** The stock provisioner, as deploy/fleet runs it: a claim gets its volume on the node that the scheduler chose. */
async function provision(
  server: StandaloneApiServer,
  scratch: Scratch,
  account: Account,
  socketPath: string,
): Promise<void> {
  const { kubectl } = server;
  await using provisioner = await Provisioner.start(scratch, 'provisioner', {
    account,
    socketPath,
    args: provisionerArguments(join(fleet, 'controller.yaml'), 'Deployment holdfast-controller'),
    environment: { POD_NAME: 'holdfast-controller-1' },
  });
  await kubectl.run(['create', 'namespace', 'default']).catch(() => undefined);
  await kubectl.apply([claimOn('node-a', 'data')]);
  await eventually(async () => {
    const volumes = await kubectl.run(['get', 'pv', '-o', 'json']);
    assert.match(volumes, /"node-a"/, provisioner.log());
    const capacities = await kubectl.run(['-n', namespace, 'get', 'csistoragecapacities', '-o', 'json']);
    for (const node of ['node-a', 'node-b']) assert.ok(capacities.includes(node), `no capacity of ${node}`);
  }, 120_000);
}

const runbook = readFileSync(fileURLToPath(new URL('../../docs/node-loss.md', import.meta.url)), 'utf8');

/** A command of the runbook is as it stands there; the file of the project that it names. */
function written(command: string, directory: string): string {
  assert.ok(runbook.includes(`${command}\n`), `docs/node-loss.md has no: ${command}`);
  const path = command.split(' ').find((word) => directory !== '' && word.startsWith(directory)) ?? '';
  return fileURLToPath(new URL(`../../${path}`, import.meta.url));
}

/** A command of the runbook, for node-a; what kubectl gets. */
function documented(command: string): string[] {
  const line = command.replace('  ', ' ');
  assert.ok(runbook.includes(`${line}\n`), `docs/node-loss.md has no: ${line}`);
  const [, verb = '', , name = ''] = line.replace('NAME', 'node-a').split(' ');
  return [verb, `node/${name}`];
}

function isUnavailable(message: RegExp) {
  return (error: unknown) => error instanceof CallError && error.code === 'UNAVAILABLE' && message.test(error.message);
}
