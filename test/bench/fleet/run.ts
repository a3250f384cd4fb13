import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import { buildBundle } from '../../../scripts/build.ts';
import { Usage } from '../../../scripts/options.ts';
import { tableLines } from '../../../src/cli/output/table.ts';
import { startApiServer } from '../../cluster/api-server.ts';
import { freePort } from '../../cluster/harness/api-server.ts';
import { Daemon } from '../../cluster/harness/daemon.ts';
import { buildPrograms } from '../../cluster/harness/programs.ts';
import {
  controllerEnvironment,
  makeAccount,
  Provisioner,
  provisionerArguments,
  writeAuthority,
} from '../../deploy/fleet-cluster.ts';
import { ControllerProcess } from '../../fleet/support/controller-process.ts';
import { DriverProcess } from '../../support/driver.ts';
import { monitored } from '../../support/monitoring.ts';
import { Scratch } from '../../support/scratch.ts';
import { Claims, type ClaimTimes } from './claims.ts';
import type { CrowdPlan } from './crowd-process.ts';
import { forEach, Kubernetes } from './kubernetes.ts';
import { type Load, loadOf } from './load.ts';
import { addNodes } from './nodes.ts';

const usage =
  new Usage(`Measures one controller for many nodes, beside a provisioner on each node. As root: npm run bench:fleet -- [options]
  --nodes N     nodes that link to the controller (1000)
  --drivers N   of them with a real driver and a pool; the others have volumes that are names in memory (30)
  --claims N    claims in all, over all nodes (3000)
  --rate N      so many of them in a second at first, a tenth of them; then the others at once (10)
  --rest N      seconds in which nothing is asked for (60)
`);

const project = (path: string) => fileURLToPath(new URL(`../../../${path}`, import.meta.url));

/** What is linked in one process: one thread has to answer all of them. */
const nodesOfCrowd = 250;
const toldSchema = z.object({ nodes: z.array(z.object({ hasTold: z.boolean(), isLinked: z.boolean() })) });
const capacitySchema = z.object({
  items: z.array(z.unknown()),
  metadata: z.object({ remainingItemCount: z.number().optional() }),
});

const startedMs = performance.now();

function say(text: string): void {
  console.error(`${((performance.now() - startedMs) / 1000).toFixed(0).padStart(5)} s  ${text}`);
}

interface Plan {
  readonly nodes: number;
  readonly drivers: number;
  readonly claims: number;
  readonly rate: number;
  readonly rest: number;
}

/** A row of the result. */
interface Row {
  readonly what: string;
  readonly load?: Load;
  readonly times?: ClaimTimes;
  readonly seconds?: number;
}

async function bench({ claims: claimCount, drivers: driverCount, nodes: nodeCount, rate, rest }: Plan): Promise<Row[]> {
  const rows: Row[] = [];
  using scratch = new Scratch('bench-fleet');
  await using stack = new AsyncDisposableStack();
  const { file: bundle } = await buildBundle(scratch.join('dist'));
  const command = [process.execPath, bundle];
  const programs = await buildPrograms(['kube-controller-manager', 'csi-provisioner']);

  const server = stack.use(await startApiServer());
  const kubernetes = stack.use(new Kubernetes(server.kubeconfig));
  await server.kubectl.run(['apply', '-k', project('deploy/fleet')]);
  const account = await makeAccount(server, scratch);
  const manager = [
    join(programs, 'kube-controller-manager'),
    `--kubeconfig=${server.kubeconfig}`,
    '--controllers=persistentvolume-binder-controller',
    '--leader-elect=false',
    // By default it binds five claims in a second, and that would be all that is measured.
    '--kube-api-qps=200',
    '--kube-api-burst=400',
    `--secure-port=${await freePort()}`,
    `--cert-dir=${scratch.join('certificates')}`,
  ] as const;
  stack.use(
    new Daemon({ name: 'kube-controller-manager', command: manager, logFile: scratch.join('controller-manager.log') }),
  );

  const names = Array.from({ length: nodeCount }, (_, index) => `node-${`${index}`.padStart(4, '0')}`);
  const real = names.slice(0, driverCount);
  const tokenPath = (node: string) => scratch.join(`${node}.token`);
  await addNodes(kubernetes, names, tokenPath);
  say(`${nodeCount} nodes are in Kubernetes`);

  const environment = { ...controllerEnvironment(account), ...monitored, HOLDFAST_LOG_LEVEL: 'info' };
  const startController = (name: string, extra: Readonly<Record<string, string>> = {}) =>
    ControllerProcess.startWith(scratch, name, { ...environment, ...extra }, command);
  const second = await startController('second');
  stack.defer(() => second[Symbol.asyncDispose]());
  let first = await startController('first');
  stack.defer(() => first[Symbol.asyncDispose]());
  const { port } = first;
  const authorityPath = scratch.join('ca.crt');
  await writeAuthority(server, authorityPath);

  const linkedAtMs = performance.now();
  const controllers = [port, second.port].map((each) => ({ host: '127.0.0.1', port: each }));
  for (let from = driverCount; from < nodeCount; from += nodesOfCrowd) {
    const nodes = names.slice(from, from + nodesOfCrowd).map((name) => ({ name, tokenPath: tokenPath(name) }));
    const planPath = scratch.join(`crowd-${from}.json`);
    writeFileSync(planPath, JSON.stringify({ nodes, controllers, authorityPath } satisfies CrowdPlan));
    stack.use(
      new Daemon({
        name: 'crowd',
        command: [process.execPath, join(import.meta.dirname, 'crowd-process.ts'), planPath],
        logFile: scratch.join('crowd.log'),
      }),
    );
  }
  const sockets = new Map<string, string>();
  await forEach(real, 2, async (node) => {
    const place = stack.use(new Scratch(`bench-fleet-${node}`));
    const driver = await DriverProcess.start(place, {
      command,
      config: `pools:\n  default: { directory: ${place.join('pool')} }\n`,
      environment: {
        HOLDFAST_NODE_ID: node,
        HOLDFAST_CONTROLLER: controllers.map(({ host, port: each }) => `${host}:${each}`).join(','),
        HOLDFAST_CONTROLLER_CA: authorityPath,
        HOLDFAST_CONTROLLER_TOKEN: tokenPath(node),
      },
    });
    stack.defer(async () => void (await driver.stop()));
    sockets.set(node, driver.socketPath);
  });
  await Promise.all([allTold(first, nodeCount), allTold(second, nodeCount)]);
  rows.push({ what: 'all nodes linked to both, from nothing', seconds: (performance.now() - linkedAtMs) / 1000 });
  say('all have told both replicas what they have');

  const args = provisionerArguments(project('deploy/fleet/controller.yaml'), 'Deployment holdfast-controller');
  const provisioners: Provisioner[] = [];
  for (const [name, { socketPath }] of Object.entries({ first, second })) {
    const environmentOfPod = { POD_NAME: `holdfast-controller-${name}` };
    const options = { account, socketPath, args, environment: environmentOfPod, capacityInterval: '30s' };
    provisioners.push(await Provisioner.start(scratch, `provisioner-${name}`, options));
  }
  let settledMs = performance.now();
  stack.defer(async () => void (await Promise.all(provisioners.map((each) => each[Symbol.asyncDispose]()))));
  await capacitiesSettled(kubernetes);
  rows.push({ what: 'capacities of all nodes told to the scheduler', seconds: (performance.now() - settledMs) / 1000 });
  const parts = () => ({
    'controller 1': first.pid,
    'controller 2': second.pid,
    'provisioner 1': provisioners[0]?.pid ?? 0,
    'provisioner 2': provisioners[1]?.pid ?? 0,
  });

  rows.push({ what: 'at rest', load: await loadOf(kubernetes, parts(), () => delay(rest * 1000)) });
  say('at rest: measured');
  const claims = await Claims.watch(kubernetes);
  const planned = Array.from({ length: claimCount }, (_, index) => ({
    name: `claim-${index}`,
    node: names[index % nodeCount] ?? '',
  }));
  const steady = planned.splice(0, Math.ceil(claimCount / 10));
  rows.push(await made(`${steady.length} claims, ${rate} a second`, steady, rate));
  rows.push(await made(`${planned.length} claims at once`, planned));

  await first.kill();
  const backAtMs = performance.now();
  first = await startController('first-again', { HOLDFAST_LINK_ADDRESS: `127.0.0.1:${port}` });
  await allTold(first, nodeCount);
  rows.push({ what: 'all are back after kill -9 of a replica', seconds: (performance.now() - backAtMs) / 1000 });
  say('all are back');

  // The same with a provisioner on each node that has a real driver; the links stay, and cost the API server nothing.
  await Promise.all(provisioners.splice(0).map((each) => each[Symbol.asyncDispose]()));
  const nodeArgs = provisionerArguments(project('deploy/base/daemon-set.yaml'), 'DaemonSet holdfast');
  for (const node of real) {
    const environmentOfPod = { POD_NAME: `driver-${node}`, NODE_NAME: node };
    const socketPath = sockets.get(node) ?? '';
    const options = { account, socketPath, args: nodeArgs, environment: environmentOfPod, capacityInterval: '30s' };
    provisioners.push(await Provisioner.start(scratch, `provisioner-${node}`, options));
  }
  settledMs = performance.now();
  await capacitiesSettled(kubernetes);
  const pids = () => Object.fromEntries(provisioners.map(({ pid }, index) => [`provisioner of a node ${index}`, pid]));
  const perNode = `${real.length} nodes with a provisioner each`;
  rows.push({ what: `${perNode}: at rest`, load: await loadOf(kubernetes, pids(), () => delay(rest * 1000)) });
  const own = real.flatMap((node) => [0, 1, 2].map((index) => ({ name: `own-${node}-${index}`, node })));
  let times: ClaimTimes | undefined;
  const load = await loadOf(kubernetes, pids(), async () => {
    times = await claims.make(own, rate);
  });
  rows.push({ what: `${perNode}: ${own.length} claims, ${rate} a second`, load, ...(times && { times }) });
  return rows;

  async function made(what: string, some: typeof planned, perSecond?: number): Promise<Row> {
    let measured: ClaimTimes | undefined;
    const cost = await loadOf(kubernetes, parts(), async () => {
      measured = await claims.make(some, perSecond).catch((error: unknown) => {
        for (const each of provisioners) {
          console.error(`provisioner ${each.hasEnded ? 'that has ended' : 'at work'}:\n${each.log()}`);
        }
        throw error;
      });
    });
    say(`${what}: bound`);
    return { what, load: cost, ...(measured && { times: measured }) };
  }
}

/** Waits until the replica knows of every node all that it has. */
async function allTold(controller: ControllerProcess, nodes: number): Promise<void> {
  const port = Number((await controller.logged('listening for monitoring'))['port']);
  for (const giveUpAtMs = performance.now() + 300_000; ; ) {
    const answer = await fetch(`http://127.0.0.1:${port}/nodes`);
    const told = toldSchema.parse(await answer.json()).nodes.filter(({ hasTold, isLinked }) => hasTold && isLinked);
    if (told.length === nodes) return;
    if (performance.now() > giveUpAtMs) throw new Error(`only ${told.length} of ${nodes} nodes have told all`);
    await delay(100);
  }
}

/** Waits until no capacity has come for a while. */
async function capacitiesSettled(kubernetes: Kubernetes): Promise<void> {
  const quietMs = 10_000;
  let count = -1;
  for (let changedAtMs = performance.now(); performance.now() - changedAtMs < quietMs; await delay(500)) {
    const { items, metadata } = capacitySchema.parse(
      JSON.parse(await kubernetes.get('/apis/storage.k8s.io/v1/csistoragecapacities?limit=1')),
    );
    const now = items.length + (metadata.remainingItemCount ?? 0);
    if (now !== count) changedAtMs = performance.now();
    count = now;
  }
  say(`${count} capacities`);
}

function describe(rows: readonly Row[]): string[] {
  const columns = [
    { title: '' },
    ...[
      's',
      'p50 ms',
      'p99 ms',
      'API requests/s',
      'controllers: processor',
      'MiB',
      'provisioners: processor',
      'MiB',
    ].map((title) => ({ title, align: 'right' as const })),
  ];
  const of = (values: Readonly<Record<string, number>> | undefined, word: string) =>
    Object.entries(values ?? {}).flatMap(([name, value]) => (name.startsWith(word) ? [value] : []));
  const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);
  const percent = (values: readonly number[]) => (values.length === 0 ? '' : `${(100 * sum(values)).toFixed(1)} %`);
  const mebibytes = (values: readonly number[]) => (values.length === 0 ? '' : Math.max(...values).toFixed(0));
  return tableLines(
    columns,
    rows.map(({ load, seconds, times, what }) => [
      what,
      (seconds ?? times?.seconds ?? load?.seconds ?? 0).toFixed(1),
      times?.p50Ms.toFixed(0) ?? '',
      times?.p99Ms.toFixed(0) ?? '',
      load?.requestsPerSecond.toFixed(1) ?? '',
      percent(of(load?.processor, 'controller')),
      mebibytes(of(load?.mostMebibytes, 'controller')),
      percent(of(load?.processor, 'provisioner')),
      mebibytes(of(load?.mostMebibytes, 'provisioner')),
    ]),
  );
}

const { values } = usage.read({
  options: {
    nodes: { type: 'string', default: '1000' },
    drivers: { type: 'string', default: '30' },
    claims: { type: 'string', default: '3000' },
    rate: { type: 'string', default: '10' },
    rest: { type: 'string', default: '60' },
  },
});
const number = (option: keyof typeof values) => usage.wholeNumber(option, values[option]);
const plan = {
  nodes: number('nodes'),
  drivers: number('drivers'),
  claims: number('claims'),
  rate: number('rate'),
  rest: number('rest'),
};
for (const line of describe(await bench(plan))) console.log(line);
