import assert from 'node:assert/strict';
import { after, before, describe } from 'node:test';
import { clusterTest } from './harness/cluster-test.ts';
import { cluster } from './harness/current.ts';
import { claim, fromSnapshot, pod } from './harness/objects.ts';

// With --node-deployment external-snapshotter (8.7) looks only at contents with its node's name on them, which the snapshot
// controller writes on those of snapshots, but not on those of groups. The other tests have the manifests for any number of
// nodes.
describe('deploy/one-node', () => {
  before(() => cluster().driver.install('one'));
  after(() => cluster().driver.install());

  clusterTest('a group snapshot cuts all volumes of an application at one instant', async (namespace) => {
    const labels = { app: 'pair' };
    await namespace.apply(
      claim('left', { labels }),
      claim('right', { labels }),
      // A line goes to the left and then to the right: no cut at one instant has more on the right, or two fewer.
      pod('writer', {
        volumes: { left: 'left', right: 'right' },
        script: 'while :; do for side in left right; do echo line >> /$side/n; sync /$side/n; done; done &',
      }),
    );
    await namespace.running('writer');
    await namespace.exec('writer', 'until [ -s /right/n ]; do sleep 1; done');
    await namespace.apply({
      apiVersion: 'groupsnapshot.storage.k8s.io/v1',
      kind: 'VolumeGroupSnapshot',
      metadata: { name: 'group' },
      spec: { volumeGroupSnapshotClassName: 'holdfast', source: { selector: { matchLabels: labels } } },
    });
    await namespace.wait('--for=jsonpath={.status.readyToUse}=true', 'volumegroupsnapshot/group');
    await namespace.remove('pod/writer');

    const members = '{range .items[*]}{.metadata.name} {.spec.source.persistentVolumeClaimName}{"\\n"}{end}';
    const lines = (await namespace.run(['get', 'volumesnapshots', `-o=jsonpath=${members}`])).trim().split('\n');
    assert.equal(lines.length, 2);
    await namespace.apply(
      ...lines
        .map((line) => line.split(' '))
        .map(([name = '', source = '']) => claim(`was-${source}`, { dataSource: fromSnapshot(name) })),
      pod('reader', { volumes: { left: 'was-left', right: 'was-right' } }),
    );
    await namespace.running('reader');
    const counts = await namespace.exec('reader', 'wc -l < /left/n; wc -l < /right/n');
    const [left = NaN, right = NaN] = counts.split('\n').map(Number);
    assert.ok(right > 0, 'the writer had begun');
    assert.ok(left === right || left === right + 1, `left ${left}, right ${right}`);
  });
});
