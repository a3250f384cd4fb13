import assert from 'node:assert/strict';
import { fleetTest } from '../harness/fleet/fleet-test.ts';
import type { Namespace } from '../harness/namespace.ts';
import { claim, fromSnapshot, type Manifest, pod } from '../harness/objects.ts';
import { waitFor } from '../harness/waiting.ts';

const labels = { app: 'pair' };
const group: Manifest = {
  apiVersion: 'groupsnapshot.storage.k8s.io/v1',
  kind: 'VolumeGroupSnapshot',
  metadata: { name: 'group' },
  spec: { volumeGroupSnapshotClassName: 'holdfast', source: { selector: { matchLabels: labels } } },
};

/** Each claim with a pod on its node that has written to it. */
async function makeMembers(namespace: Namespace, nodes: Readonly<Record<string, string>>): Promise<void> {
  const names = Object.keys(nodes);
  await namespace.apply(
    ...names.map((name) => claim(name, { labels })),
    ...Object.entries(nodes).map(([name, node]) =>
      pod(name, { volumes: { data: name }, node, script: 'hostname > /data/host; sync /data/host' }),
    ),
  );
  await namespace.running(...names);
}

fleetTest('a group snapshot of volumes of one node is taken, and restored', async (namespace) => {
  await makeMembers(namespace, { left: 'node-c', right: 'node-c' });
  await namespace.apply(group);
  await namespace.wait('--for=jsonpath={.status.readyToUse}=true', 'volumegroupsnapshot/group');
  const members = '{range .items[*]}{.metadata.name} {.spec.source.persistentVolumeClaimName}{"\\n"}{end}';
  const lines = (await namespace.run(['get', 'volumesnapshots', `-o=jsonpath=${members}`])).trim().split('\n');
  assert.equal(lines.length, 2);
  await namespace.apply(
    ...lines
      .map((line) => line.split(' '))
      .map(([name = '', source = '']) => claim(`was-${source}`, { dataSource: fromSnapshot(name) })),
    pod('reader', { volumes: { left: 'was-left', right: 'was-right' }, node: 'node-c' }),
  );
  await namespace.running('reader');
  assert.equal(await namespace.exec('reader', 'cat /left/host /right/host'), 'left\nright');
});

fleetTest('a group snapshot of volumes of two nodes is refused, with their names', async (namespace) => {
  await makeMembers(namespace, { left: 'node-a', right: 'node-b' });
  await namespace.apply(group);
  await waitFor('the group to tell', async () => {
    const told = await namespace.run(['describe', 'volumegroupsnapshot/group']);
    assert.match(told, /cannot be snapshotted at one instant/);
    assert.match(told, /is on node-a/);
    assert.match(told, /is on node-b/);
  });
});
