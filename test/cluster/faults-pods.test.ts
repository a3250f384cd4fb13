import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mountsBelow } from '../support/left-behind.ts';
import { clusterTest } from './harness/cluster-test.ts';
import type { Namespace } from './harness/namespace.ts';
import { claim, pod } from './harness/objects.ts';
import { killProcess, processes } from './harness/processes.ts';
import { waitFor } from './harness/waiting.ts';

clusterTest('a pod is deleted by force together with its claim', async (namespace) => {
  await namespace.apply(claim('data'), pod('user', { volumes: { data: 'data' } }));
  await namespace.running('user');
  await namespace.run(['delete', '--force', '--grace-period=0', 'pod/user', 'pvc/data']);
});

clusterTest("a pod's container is killed: the next one has the data", async (namespace) => {
  await namespace.apply(claim('data'), pod('user', { volumes: { data: 'data' }, script: 'date >> /data/starts' }));
  await namespace.running('user');
  const uid = await podUid(namespace, 'user');
  for (const { pid, commandLine, cgroups } of processes()) {
    if (cgroups.includes(uid) && commandLine.startsWith('sh -c')) killProcess(pid);
  }
  await waitFor('the container to start again', async () => {
    assert.equal(await namespace.field('pod/user', '.status.containerStatuses[0].restartCount'), '1');
  });
  await namespace.running('user');
  assert.equal(await namespace.exec('user', 'wc -l < /data/starts'), '2');
});

for (const [what, pattern] of [
  ['the mount in the pod', /\/kubernetes\.io~csi\/.*\/mount$/],
  ['the staged mount', /\/globalmount$/],
  ['every mount', /\/kubernetes\.io[~/]csi\//],
] as const) {
  clusterTest(
    `${what} is removed behind the driver's back: the pod can stop, and the next one start`,
    async (namespace) => {
      await namespace.apply(
        claim('data'),
        pod('user', { volumes: { data: 'data' }, script: 'echo kept > /data/file' }),
      );
      await namespace.running('user');
      const targets = mountsBelow('/var/lib/kubelet').filter((target) => pattern.test(target));
      assert.ok(targets.length > 0);
      for (const target of targets) execFileSync('umount', ['--lazy', target]);
      await namespace.remove('pod/user');
      await namespace.apply(pod('next', { volumes: { data: 'data' } }));
      await namespace.running('next');
      assert.equal(await namespace.exec('next', 'cat /data/file'), 'kept');
    },
  );
}

function podUid(namespace: Namespace, name: string): Promise<string> {
  return namespace.field(`pod/${name}`, '.metadata.uid');
}
