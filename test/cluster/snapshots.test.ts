import assert from 'node:assert/strict';
import { clusterTest } from './harness/cluster-test.ts';
import { claim, fromClaim, fromSnapshot, pod, snapshot } from './harness/objects.ts';

clusterTest('a snapshot of a volume in use is restored with what was there then', async (namespace) => {
  await namespace.apply(
    claim('data'),
    pod('writer', { volumes: { data: 'data' }, script: 'echo before > /data/file' }),
  );
  await namespace.running('writer');
  await namespace.apply(snapshot('cut', 'data'));
  await namespace.wait('--for=jsonpath={.status.readyToUse}=true', 'volumesnapshot/cut');
  await namespace.exec('writer', 'echo after > /data/file');

  await namespace.apply(
    claim('restored', { dataSource: fromSnapshot('cut') }),
    pod('reader', { volumes: { data: 'restored' } }),
  );
  await namespace.running('reader');
  assert.equal(await namespace.exec('reader', 'cat /data/file'), 'before');
  assert.equal(await namespace.exec('writer', 'cat /data/file'), 'after');
});

clusterTest('a clone is larger than its source if asked, and each goes its own way', async (namespace) => {
  await namespace.apply(
    claim('data', { storageClass: 'holdfast-xfs' }),
    pod('writer', { volumes: { data: 'data' }, script: 'echo common > /data/file' }),
  );
  await namespace.running('writer');
  const plan = { storageClass: 'holdfast-xfs', size: '600Mi', dataSource: fromClaim('data') };
  await namespace.apply(claim('clone', plan), pod('reader', { volumes: { data: 'clone' } }));
  await namespace.running('reader');
  assert.equal(await namespace.exec('reader', 'cat /data/file; echo own > /data/file; cat /data/file'), 'common\nown');
  assert.equal(await namespace.exec('writer', 'cat /data/file'), 'common');
  const kibibytes = (name: string) => namespace.exec(name, "df -k /data | awk 'END { print $2 }'").then(Number);
  assert.ok((await kibibytes('reader')) > 1.7 * (await kibibytes('writer')), 'twice the size');
});
