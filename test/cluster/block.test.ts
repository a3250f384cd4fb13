import assert from 'node:assert/strict';
import { clusterTest } from './harness/cluster-test.ts';
import { claim, pod } from './harness/objects.ts';

clusterTest('a raw block volume has the size of its claim and keeps what was written', async (namespace) => {
  const volumes = { disk: { source: 'disk', block: true } };
  await namespace.apply(
    claim('disk', { storageClass: 'holdfast-block', volumeMode: 'Block', size: '64Mi' }),
    pod('first', { volumes }),
  );
  await namespace.running('first');
  assert.equal(await namespace.exec('first', 'blockdev --getsize64 /dev/disk'), String(64 * 2 ** 20));
  const written = await namespace.exec(
    'first',
    'head -c 8388608 /dev/urandom | tee /tmp/data | dd of=/dev/disk bs=1M conv=fsync 2>/dev/null; md5sum < /tmp/data',
  );
  await namespace.remove('pod/first');
  await namespace.apply(pod('second', { volumes }));
  await namespace.running('second');
  assert.equal(await namespace.exec('second', 'head -c 8388608 /dev/disk | md5sum'), written);
});
