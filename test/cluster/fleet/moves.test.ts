import assert from 'node:assert/strict';
import { fleet } from '../harness/fleet/current.ts';
import { fleetTest } from '../harness/fleet/fleet-test.ts';
import { type } from '../harness/fleet/terminal.ts';
import { claimSpec, podSpec } from '../harness/objects.ts';
import { waitFor } from '../harness/waiting.ts';

/** Writes numbered lines, each synced before it counts as written. */
const writer = [
  'touch /data/log; n=$(wc -l < /data/log)',
  '( while :; do n=$((n + 1)); echo "$n" >> /data/log && sync /data/log && echo "$n" > /tmp/acknowledged; done ) &',
].join('\n');

fleetTest(
  'a claim of a StatefulSet moves from node to node and back ten times, and no acknowledged line is lost',
  async (namespace) => {
    const turnOn = 'kubectl -n holdfast-system set env daemonset/holdfast -c holdfast HOLDFAST_MOVE_ADDRESS=:9445';
    assert.equal((await type(turnOn)).status, 0);
    await type('kubectl -n holdfast-system rollout status daemonset/holdfast --timeout=600s');
    const labels = { app: 'set' };
    await namespace.apply({
      apiVersion: 'apps/v1',
      kind: 'StatefulSet',
      metadata: { name: 'set' },
      spec: {
        replicas: 1,
        selector: { matchLabels: labels },
        template: { metadata: { labels }, spec: podSpec({ volumes: { data: { source: {} } }, script: writer }) },
        volumeClaimTemplates: [{ metadata: { name: 'data' }, spec: claimSpec({}) }],
      },
    });
    const ready = () => namespace.wait('--for=jsonpath={.status.readyReplicas}=1', 'statefulset/set');
    const nodeOf = () => namespace.run(['get', 'pod/set-0', '-o', 'jsonpath={.spec.nodeName}']);
    await ready();
    const { handle } = await namespace.volumeOf('data-set-0');
    const first = await nodeOf();
    const other = fleet().nodes.find(({ name }) => name !== first)?.name ?? assert.fail('one node');
    const dry = await type(`kubectl holdfast move ${namespace.name}/data-set-0 --to ${other} --dry-run`);
    assert.equal(dry.status, 0, dry.stderr);
    assert.match(dry.stdout, new RegExp(`from pool default of node ${first} to pool default of node ${other}`));
    let acknowledged = 0;
    for (let at = 0; at < 20; at++) {
      const to = at % 2 === 0 ? other : first;
      await waitFor('the writer to have written', async () => {
        const now = Number(await namespace.exec('set-0', 'cat /tmp/acknowledged'));
        assert.ok(now > acknowledged + 20, `${now}`);
        acknowledged = now;
      });
      const { status, stderr, stdout } = await type(
        `kubectl holdfast move ${namespace.name}/data-set-0 --to ${to} --yes`,
      );
      assert.equal(status, 0, stderr);
      assert.match(stdout, new RegExp(`${namespace.name}/data-set-0 is on ${to}\\.`));
      await waitFor('the pod to run there', async () => {
        assert.equal(await nodeOf(), to);
        await ready();
      });
      const lines = (await namespace.exec('set-0', 'cat /data/log')).split('\n').filter((line) => line !== '');
      assert.ok(lines.length >= acknowledged, `${lines.length} lines, ${acknowledged} were acknowledged`);
      assert.deepEqual(
        lines.slice(0, acknowledged).map(Number),
        Array.from({ length: acknowledged }, (_, index) => index + 1),
      );
      assert.deepEqual(fleet().nodesWith(handle), [to]);
      const { name } = await namespace.volumeOf('data-set-0');
      const path = 'jsonpath={.spec.nodeAffinity} {.spec.persistentVolumeReclaimPolicy}';
      assert.match(await namespace.run(['get', 'pv', name, '-o', path]), new RegExp(`"${to}".* Delete$`));
    }
    // The copies that it has left.
    for (const node of [first, other]) {
      const purged = await type(`kubectl holdfast trash purge ${handle} --node ${node}`);
      assert.equal(purged.status, 0, purged.stderr);
    }
  },
);
