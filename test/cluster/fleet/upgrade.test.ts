import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { fleet } from '../harness/fleet/current.ts';
import { fleetTest } from '../harness/fleet/fleet-test.ts';
import { type LastRelease, makeLastRelease } from '../harness/fleet/last-release.ts';
import type { ManifestPlan } from '../harness/fleet/manifests.ts';
import { type } from '../harness/fleet/terminal.ts';
import type { Namespace } from '../harness/namespace.ts';
import { writeNumbers, writesGoOn } from '../harness/numbers.ts';
import { claim, pod } from '../harness/objects.ts';
import { waitFor } from '../harness/waiting.ts';

const page = (path: string) => readFileSync(fileURLToPath(new URL(`../../../docs/${path}`, import.meta.url)), 'utf8');
const guide = page('fleet.md');
const guides = guide + page('guides/upgrade.md');
/** On a loaded machine a rollout of three drivers may take minutes. */
const patienceMs = 600_000;

/** As an operator types it, and as docs/fleet.md has it: `kubectl apply -k …`. */
async function apply(plan: ManifestPlan, ...flags: readonly string[]): Promise<void> {
  const { driver, kubectl } = fleet();
  const command = `kubectl apply -k ${plan.parts[0]}${flags.map((flag) => ` ${flag}`).join('')}`;
  if (plan.root === undefined) assert.ok(guides.includes(command), `no page has: ${command}`);
  await kubectl.run(['apply', '--validate=strict', ...flags, '-f', '-'], { input: await driver.manifests(plan) });
}

async function rolledOut(object: string): Promise<void> {
  const status = ['rollout', 'status', '--timeout=120s', object];
  await waitFor(`${object} to be rolled out`, () => fleet().driver.run(status), patienceMs);
}

/** Pods with new volumes come and go on a node until it is told to end. How many there were. */
async function load(namespace: Namespace, node: string, signal: AbortSignal): Promise<number> {
  let count = 0;
  while (!signal.aborted) {
    count += 1;
    const name = `load-${count}-${node}`;
    await namespace.apply(claim(name, { size: '64Mi', storageClass: 'holdfast' }));
    await namespace.apply(
      pod(name, { volumes: { data: name }, node, script: 'hostname > /data/host; sync /data/host' }),
    );
    await waitFor(`${name} to run`, () => namespace.running(name), patienceMs);
    await namespace.remove(`pod/${name}`);
    // Every other volume stays, so that there is something of each time.
    if (count % 2 === 0) await namespace.remove(`pvc/${name}`);
  }
  return count;
}

type Path = (last: LastRelease, after: (step: string) => Promise<void>) => Promise<void>;

/** From the last release with sidecars on each node to this version with the controller, by the steps of docs/fleet.md. */
const inSteps: Path = async ({ image, root }, after) => {
  const { driver } = fleet();
  await apply({ parts: ['deploy'], root, image });
  await rolledOut('daemonset/holdfast');
  await after('the last release');
  await apply({ parts: ['deploy/node-sidecars'] });
  await rolledOut('daemonset/holdfast');
  await after('this version, as it was');
  await apply({ parts: ['deploy'] }, '-l', 'app.kubernetes.io/name=holdfast-controller');
  await rolledOut('deployment/holdfast-controller');
  await after('the controller alone');
  await apply({ parts: ['deploy'] });
  await rolledOut('daemonset/holdfast');
  await driver.linked();
  await deleteStaleCapacities();
  await after('the controller');
};

/** The same at once, by docs/guides/upgrade.md, and back to the last release. */
const atOnceAndBack: Path = async ({ image, root }, after) => {
  const { driver } = fleet();
  await apply({ parts: ['deploy'], root, image });
  await rolledOut('daemonset/holdfast');
  await after('the last release');
  await apply({ parts: ['deploy'] });
  await rolledOut('deployment/holdfast-controller');
  await rolledOut('daemonset/holdfast');
  await driver.linked();
  await deleteStaleCapacities();
  await after('the controller');
  const [back = ''] = /(?<=^### Back$.*?```sh\n).*?(?=```)/ms.exec(guide) ?? [];
  const [first, ...others] = back.trim().split('\n');
  assert.equal(first, 'kubectl apply -k deploy/node-sidecars');
  await apply({ parts: ['deploy/node-sidecars'] });
  await rolledOut('daemonset/holdfast');
  for (const command of others) await typed(command);
  await after('this version, with sidecars on each node');
  await apply({ parts: ['deploy'], root, image });
  await rolledOut('daemonset/holdfast');
  await after('the last release again');
};

async function deleteStaleCapacities(): Promise<void> {
  const [command] = /kubectl -n holdfast-system delete csistoragecapacities -l 'csi[^`\n]+/.exec(guides) ?? [];
  assert.ok(command);
  await typed(command);
  const shown = ['get', 'csistoragecapacities', '-A', '-o=jsonpath={.items[*].metadata.labels}'];
  assert.match(await fleet().kubectl.run(shown), /external-provisioner/);
}

async function typed(command: string): Promise<void> {
  const { status, stderr } = await type(command);
  assert.equal(status, 0, `${command}: ${stderr}`);
}

for (const [title, upgrade] of [
  ['from sidecars on each node, of the last release, to the controller, in steps', inSteps],
  ['from the last release to the controller at once, and back', atOnceAndBack],
] as const) {
  fleetTest(`${title}, under load: no pod is touched`, (namespace) => underLoad(namespace, upgrade), {
    timeoutMs: 2_400_000,
  });
}

async function underLoad(namespace: Namespace, upgrade: Path): Promise<void> {
  const { driver, nodes } = fleet();
  const last = await makeLastRelease(fleet().makeDirectory('last-release'));
  await fleet().importImage(last.archive);
  await driver.uninstall();
  const enough = new AbortController();
  let loads: Promise<number>[] = [];
  try {
    const writers = nodes.map(({ name }) => `writer-${name}`);
    const uids = () => Promise.all(writers.map((name) => namespace.field(`pod/${name}`, '.metadata.uid')));
    let before: string[] = [];
    let daemonSet = '';
    const uidOfSet = () => driver.run(['get', 'daemonset/holdfast', '-o=jsonpath={.metadata.uid}']);
    await upgrade(last, async (step) => {
      console.log(`upgrade: ${step}`);
      if (loads.length > 0) {
        for (const name of writers) await writesGoOn(namespace, name);
        return;
      }
      await namespace.apply(
        ...nodes.map(({ name }) => claim(`writer-${name}`)),
        ...nodes.map(({ name }) =>
          pod(`writer-${name}`, { volumes: { data: `writer-${name}` }, node: name, script: writeNumbers }),
        ),
      );
      await namespace.running(...writers);
      before = await uids();
      daemonSet = await uidOfSet();
      loads = nodes.map(({ name }) => load(namespace, name, enough.signal));
      // What fails is told when all have ended.
      for (const each of loads) each.catch(() => undefined);
    });
    enough.abort();
    const counts = await Promise.all(loads);
    console.log(`upgrade: ${counts.join(' + ')} pods with new volumes meanwhile`);

    assert.equal(await uidOfSet(), daemonSet, 'the DaemonSet is not made anew, which would end all its pods at once');
    assert.deepEqual(await uids(), before);
    for (const name of writers) {
      assert.equal(await namespace.field(`pod/${name}`, '.status.containerStatuses[0].restartCount'), '0');
      const gap = `awk '$1 != NR { print; exit 1 }' /data/numbers`;
      assert.equal(await namespace.exec(name, gap), '');
    }
    // Each claim has one volume, whoever made it.
    const made = () => nodes.flatMap((node) => node.volumes());
    await waitFor('the deleted volumes to be gone', async () => {
      const recorded = await namespace.run(['get', 'pv', '-o=jsonpath={.items[*].spec.csi.volumeHandle}']);
      assert.deepEqual(made().sort(), recorded.split(' ').sort());
    });
    // And all of them, from whatever time, can be deleted.
    await namespace.run(['delete', 'pods,pvc', '--all', '--timeout=140s']);
    await waitFor('all volumes to be gone', () => assert.deepEqual(made(), []), patienceMs);
  } finally {
    enough.abort();
    await Promise.allSettled(loads);
    await driver.install();
    await driver.linked();
  }
}
