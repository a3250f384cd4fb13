import assert from 'node:assert/strict';
import { clusterTest } from './harness/cluster-test.ts';
import { claimSpec, pod } from './harness/objects.ts';

clusterTest('an inline volume has a hard limit and goes with its pod', async (namespace) => {
  const source = { csi: { driver: 'holdfast.csi.dev', volumeAttributes: { size: '64Mi' } } };
  await namespace.apply(pod('user', { volumes: { scratch: { source } } }));
  await namespace.running('user');
  await assert.rejects(
    namespace.exec('user', 'dd if=/dev/zero of=/scratch/file bs=1M count=100'),
    /No space left on device/,
  );
  assert.equal(await namespace.run(['get', 'pvc', '-o', 'name']), '');
});

clusterTest('a generic ephemeral volume goes with its pod', async (namespace) => {
  const source = { ephemeral: { volumeClaimTemplate: { spec: claimSpec({}) } } };
  await namespace.apply(pod('user', { volumes: { scratch: { source } }, script: 'echo x > /scratch/file' }));
  await namespace.running('user');
  const { name } = await namespace.volumeOf('user-scratch');
  await namespace.remove('pod/user');
  await namespace.wait('--for=delete', 'pvc/user-scratch', `pv/${name}`);
});
