import assert from 'node:assert/strict';
import { fleet } from '../harness/fleet/current.ts';
import { fleetTest } from '../harness/fleet/fleet-test.ts';
import { type } from '../harness/fleet/terminal.ts';
import { claimSpec, type Manifest, podSpec } from '../harness/objects.ts';
import { waitFor } from '../harness/waiting.ts';

const plain =
  'pools:\n  default: {}\n  plain: { kind: directory, path: /var/lib/holdfast/plain }\ndefaultPool: default\n';

/** Writes numbered lines, each synced before it counts as written; beside it are entries of other types. */
const writer = [
  'touch /data/log; n=$(wc -l < /data/log)',
  '[ -e /data/d ] || { mkdir /data/d; ln /data/log /data/d/name; ln -s nowhere /data/d/link; mkfifo /data/d/fifo; chmod 2751 /data/d; }',
  '( while :; do n=$((n + 1)); echo "$n" >> /data/log && sync /data/log && echo "$n" > /tmp/acknowledged; done ) &',
].join('\n');

const entries = 'stat -c "%n %A %h %u %g" /data/d /data/d/* | sort';

fleetTest(
  'a claim of a pool of directories moves from node to node and back, and no acknowledged line is lost',
  async (namespace) => {
    const className = `${namespace.name}-plain`;
    const storageClass: Manifest = {
      apiVersion: 'storage.k8s.io/v1',
      kind: 'StorageClass',
      metadata: { name: className },
      provisioner: 'holdfast.csi.dev',
      parameters: { pool: 'plain' },
      volumeBindingMode: 'WaitForFirstConsumer',
    };
    try {
      await configure(plain);
      await namespace.apply(storageClass);
      const labels = { app: 'set' };
      await namespace.apply({
        apiVersion: 'apps/v1',
        kind: 'StatefulSet',
        metadata: { name: 'set' },
        spec: {
          replicas: 1,
          selector: { matchLabels: labels },
          template: { metadata: { labels }, spec: podSpec({ volumes: { data: { source: {} } }, script: writer }) },
          volumeClaimTemplates: [{ metadata: { name: 'data' }, spec: claimSpec({ storageClass: className }) }],
        },
      });
      const ready = () => namespace.wait('--for=jsonpath={.status.readyReplicas}=1', 'statefulset/set');
      const nodeOf = () => namespace.run(['get', 'pod/set-0', '-o', 'jsonpath={.spec.nodeName}']);
      await ready();
      const { handle } = await namespace.volumeOf('data-set-0');
      const first = await nodeOf();
      const other = fleet().nodes.find((node) => node.name !== first)?.name ?? assert.fail('one node');
      const dry = await type(`kubectl holdfast move ${namespace.name}/data-set-0 --to ${other} --dry-run`);
      assert.equal(dry.status, 0, dry.stderr);
      assert.match(dry.stdout, new RegExp(`from pool plain of node ${first} to pool plain of node ${other}`));
      const before = await namespace.exec('set-0', entries);
      for (const to of [other, first, other, first]) {
        let acknowledged = 0;
        await waitFor('the writer to have written', async () => {
          acknowledged = Number(await namespace.exec('set-0', 'cat /tmp/acknowledged'));
          assert.ok(acknowledged > 0);
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
        const lines = (await namespace.exec('set-0', 'cat /data/d/name')).split('\n').filter((line) => line !== '');
        assert.ok(lines.length >= acknowledged, `${lines.length} lines, ${acknowledged} were acknowledged`);
        const numbers = Array.from({ length: acknowledged }, (_, index) => index + 1);
        assert.deepEqual(lines.slice(0, acknowledged).map(Number), numbers);
        assert.equal(await namespace.exec('set-0', entries), before);
        // It may be another one now, with the same volume.
        const { name } = await namespace.volumeOf('data-set-0');
        assert.match(await namespace.field(`pv/${name}`, '.spec.nodeAffinity'), new RegExp(`"${to}"`));
      }
      for (const node of [first, other]) {
        const purged = await type(`kubectl holdfast trash purge ${handle} --node ${node}`);
        assert.equal(purged.status, 0, purged.stderr);
      }
    } finally {
      // While its pool is there.
      const claimed = await namespace.run(['get', 'pvc', '-o', 'jsonpath={.items[*].spec.volumeName}']);
      const gone = ['--ignore-not-found', '--timeout=240s'];
      await namespace.run(['delete', 'statefulset/set', 'pvc/data-set-0', ...gone]);
      if (claimed !== '') await namespace.wait('--for=delete', `pv/${claimed}`);
      await namespace.remove(`storageclass/${className}`);
      await configure('{}\n');
    }
  },
);

/** Gives all nodes this configuration, with moves between them. */
async function configure(text: string): Promise<void> {
  const patch = JSON.stringify({ data: { 'holdfast.yaml': text } });
  const commands = [
    `kubectl -n holdfast-system patch configmap holdfast --type merge -p '${patch}'`,
    'kubectl -n holdfast-system set env daemonset/holdfast -c holdfast HOLDFAST_MOVE_ADDRESS=:9445',
    'kubectl -n holdfast-system rollout restart daemonset/holdfast',
    'kubectl -n holdfast-system rollout status daemonset/holdfast --timeout=600s',
  ];
  for (const command of commands) {
    const { status, stderr } = await type(command);
    assert.equal(status, 0, stderr);
  }
}
