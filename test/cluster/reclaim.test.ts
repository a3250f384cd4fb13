import assert from 'node:assert/strict';
import { clusterTest } from './harness/cluster-test.ts';
import { claim, pod } from './harness/objects.ts';

clusterTest('Delete: the volume goes with its claim', async (namespace) => {
  await namespace.apply(claim('data'), pod('user', { volumes: { data: 'data' } }));
  await namespace.running('user');
  const { name } = await namespace.volumeOf('data');
  await namespace.remove('pod/user', 'pvc/data');
  await namespace.wait('--for=delete', `pv/${name}`);
});

clusterTest('Retain: the volume outlives its claim, and another claim gets it with its data', async (namespace) => {
  await namespace.apply(claim('data'), pod('user', { volumes: { data: 'data' }, script: 'echo kept > /data/file' }));
  await namespace.running('user');
  const { name } = await namespace.volumeOf('data');
  const keep = async (policy: string) => {
    const patch = JSON.stringify({ spec: { persistentVolumeReclaimPolicy: policy } });
    await namespace.run(['patch', `pv/${name}`, '--patch', patch]);
  };
  await keep('Retain');
  await namespace.remove('pod/user', 'pvc/data');
  await namespace.wait('--for=jsonpath={.status.phase}=Released', `pv/${name}`);

  await namespace.run(['patch', `pv/${name}`, '--type=json', '--patch', '[{"op":"remove","path":"/spec/claimRef"}]']);
  await namespace.apply(claim('again', { volumeName: name }), pod('next', { volumes: { data: 'again' } }));
  await namespace.running('next');
  assert.equal(await namespace.exec('next', 'cat /data/file'), 'kept');
  await keep('Delete');
});
