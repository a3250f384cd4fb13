import assert from 'node:assert/strict';
import { clusterTest } from './harness/cluster-test.ts';
import { cluster } from './harness/current.ts';
import { claim, pod } from './harness/objects.ts';
import { waitFor } from './harness/waiting.ts';

clusterTest('the kubelet dies while pods run: they do not notice, and stop as always', async (namespace) => {
  await namespace.apply(
    claim('data'),
    claim('disk', { storageClass: 'holdfast-block', volumeMode: 'Block', size: '64Mi' }),
    pod('user', { volumes: { data: 'data', disk: { source: 'disk', block: true } }, script: 'echo kept > /data/file' }),
  );
  await namespace.running('user');
  await cluster().kubelet.restart();
  await waitFor('the new kubelet to know its pods', async () => {
    assert.equal(await namespace.exec('user', 'cat /data/file'), 'kept');
  });
  assert.equal(await namespace.field('pod/user', '.status.containerStatuses[0].restartCount'), '0');
  await namespace.remove('pod/user');
});

clusterTest('the kubelet dies while pods stop: their volumes are given back by the next one', async (namespace) => {
  const names = ['one', 'two', 'three'];
  await namespace.apply(
    ...names.map((name) => claim(name)),
    ...names.map((name) => pod(name, { volumes: { data: name }, script: 'echo kept > /data/file' })),
  );
  await namespace.running(...names);
  await namespace.run(['delete', '--wait=false', ...names.map((name) => `pod/${name}`)]);
  await cluster().kubelet.restart();
  await namespace.wait('--for=delete', ...names.map((name) => `pod/${name}`));
  await namespace.apply(pod('next', { volumes: { data: 'one' } }));
  await namespace.running('next');
  assert.equal(await namespace.exec('next', 'cat /data/file'), 'kept');
});

clusterTest('a pod goes while the kubelet is away: its volume is given back by the next one', async (namespace) => {
  await namespace.apply(claim('data'), pod('user', { volumes: { data: 'data' } }));
  await namespace.running('user');
  const { kubelet } = cluster();
  await kubelet.stop();
  await namespace.run(['delete', 'pod/user', '--force', '--grace-period=0']);
  await kubelet.resume();
  await namespace.remove('pvc/data');
});
