import assert from 'node:assert/strict';
import { clusterTest } from './harness/cluster-test.ts';
import { claim, pod } from './harness/objects.ts';
import { waitFor } from './harness/waiting.ts';

clusterTest('two pods share a volume; one that mounts it read-only cannot write', async (namespace) => {
  await namespace.apply(
    claim('data'),
    pod('writer', { volumes: { data: 'data' } }),
    pod('reader', { volumes: { data: { source: 'data', readOnly: true } } }),
  );
  await namespace.running('writer', 'reader');
  await namespace.exec('writer', 'echo shared > /data/file');
  assert.equal(await namespace.exec('reader', 'cat /data/file'), 'shared');
  await assert.rejects(namespace.exec('reader', 'touch /data/other'), /Read-only file system/);
});

clusterTest('a claim that is mounted read-only as a whole is read-only in the kernel', async (namespace) => {
  await namespace.apply(claim('data'), pod('writer', { volumes: { data: 'data' }, script: 'echo kept > /data/file' }));
  await namespace.running('writer');
  await namespace.remove('pod/writer');
  const source = { persistentVolumeClaim: { claimName: 'data', readOnly: true } };
  await namespace.apply(pod('reader', { volumes: { data: { source } } }));
  await namespace.running('reader');
  assert.equal(await namespace.exec('reader', 'cat /data/file'), 'kept');
  assert.match(await namespace.exec('reader', 'grep " /data " /proc/mounts'), / ro,/);
  await assert.rejects(namespace.exec('reader', 'touch /data/other'), /Read-only file system/);
});

clusterTest('subPath shows one directory of a volume', async (namespace) => {
  await namespace.apply(claim('data'), pod('whole', { volumes: { data: 'data' }, script: 'mkdir -p /data/part' }));
  await namespace.running('whole');
  await namespace.apply(pod('part', { volumes: { data: { source: 'data', subPath: 'part' } } }));
  await namespace.running('part');
  await namespace.exec('part', 'echo inner > /data/file');
  assert.equal(await namespace.exec('whole', 'cat /data/part/file'), 'inner');
});

clusterTest("fsGroup: a pod without root can write to its volume, and its files are the group's", async (namespace) => {
  const securityContext = { runAsUser: 1000, runAsGroup: 1000, fsGroup: 2000, runAsNonRoot: true };
  await namespace.apply(claim('data'), pod('user', { volumes: { data: 'data' }, securityContext }));
  await namespace.running('user');
  assert.equal(await namespace.exec('user', 'touch /data/file; stat -c %u:%g /data/file'), '1000:2000');
});

clusterTest('ReadWriteOncePod: the second pod waits until the first is gone', async (namespace) => {
  await namespace.apply(claim('data', { accessMode: 'ReadWriteOncePod' }), pod('first', { volumes: { data: 'data' } }));
  await namespace.running('first');
  await namespace.apply(pod('second', { volumes: { data: 'data' } }));
  await waitFor('the second pod to be refused', async () => {
    assert.match(await namespace.events('pod/second'), /ReadWriteOncePod/);
  });
  await namespace.remove('pod/first');
  await namespace.running('second');
});
