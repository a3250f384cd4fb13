import assert from 'node:assert/strict';
import { clusterTest } from './harness/cluster-test.ts';
import { hasSysResource } from './harness/machine.ts';
import type { Namespace } from './harness/namespace.ts';
import { claim, pod } from './harness/objects.ts';

import { waitFor } from './harness/waiting.ts';

/** As a user does it. */
async function ask(namespace: Namespace, size: string): Promise<void> {
  const patch = { spec: { resources: { requests: { storage: size } } } };
  await namespace.run(['patch', 'pvc/data', '--patch', JSON.stringify(patch)]);
}

async function grown(namespace: Namespace, size: string): Promise<void> {
  await namespace.wait(`--for=jsonpath={.status.capacity.storage}=${size}`, 'pvc/data');
}

function mebibytes(namespace: Namespace): Promise<number> {
  return namespace.exec('user', "df -m /data | awk 'END { print $2 }'").then(Number);
}

clusterTest('XFS grows while a pod writes to it', async (namespace) => {
  await namespace.apply(
    claim('data', { storageClass: 'holdfast-xfs' }),
    pod('user', { volumes: { data: 'data' }, script: 'while :; do date > /data/now; sleep 0.1; done &' }),
  );
  await namespace.running('user');
  await ask(namespace, '600Mi');
  await grown(namespace, '600Mi');
  assert.ok((await mebibytes(namespace)) > 450);
});

clusterTest('a raw block volume grows under a pod that has it open', async (namespace) => {
  const volumes = { disk: { source: 'data', block: true } };
  await namespace.apply(
    claim('data', { storageClass: 'holdfast-block', volumeMode: 'Block', size: '64Mi' }),
    pod('user', { volumes, script: 'exec 3<>/dev/disk' }),
  );
  await namespace.running('user');
  await ask(namespace, '128Mi');
  await grown(namespace, '128Mi');
  assert.equal(await namespace.exec('user', 'blockdev --getsize64 /dev/disk'), String(128 * 2 ** 20));
});

clusterTest('ext4 grows online where the kernel lets the driver, and else with its next pod', async (namespace) => {
  await namespace.apply(claim('data'), pod('user', { volumes: { data: 'data' }, script: 'echo kept > /data/file' }));
  await namespace.running('user');
  await ask(namespace, '600Mi');
  if (!hasSysResource()) {
    await waitFor('the refusal to be told', async () => {
      assert.match(await namespace.field('pvc/data', '.status.conditions[*].message'), /CAP_SYS_RESOURCE/);
    });
    await namespace.remove('pod/user');
    await namespace.apply(pod('user', { volumes: { data: 'data' } }));
    await namespace.running('user');
  }
  await grown(namespace, '600Mi');
  assert.ok((await mebibytes(namespace)) > 450);
  assert.equal(await namespace.exec('user', 'cat /data/file'), 'kept');
});
