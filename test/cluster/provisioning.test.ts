import assert from 'node:assert/strict';
import { clusterTest } from './harness/cluster-test.ts';
import { claim, pod } from './harness/objects.ts';

for (const storageClass of ['holdfast', 'holdfast-xfs']) {
  clusterTest(`${storageClass}: a claim waits for its pod, and the data for the next one`, async (namespace) => {
    await namespace.apply(claim('data', { storageClass }));
    await namespace.wait('--for=jsonpath={.status.phase}=Pending', 'pvc/data');
    assert.equal(await namespace.field('pvc/data', '.spec.volumeName'), '');

    await namespace.apply(pod('first', { volumes: { data: 'data' } }));
    await namespace.running('first');
    const written = await namespace.exec(
      'first',
      'dd if=/dev/urandom of=/data/file bs=1M count=16 conv=fsync; md5sum /data/file',
    );
    await namespace.remove('pod/first');

    await namespace.apply(pod('second', { volumes: { data: 'data' } }));
    await namespace.running('second');
    assert.equal(await namespace.exec('second', 'md5sum /data/file'), written);
  });
}
