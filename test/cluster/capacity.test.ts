import assert from 'node:assert/strict';
import { clusterTest } from './harness/cluster-test.ts';
import { claim, pod } from './harness/objects.ts';
import { waitFor } from './harness/waiting.ts';

clusterTest('a claim that no node has room for waits, and is bound when another one goes', async (namespace) => {
  await namespace.apply(claim('large', { size: '6Gi' }), pod('first', { volumes: { data: 'large' } }));
  await namespace.running('first');
  await namespace.apply(claim('other', { size: '7Gi' }), pod('second', { volumes: { data: 'other' } }));
  await waitFor('the scheduler to say why the pod waits', async () => {
    assert.match(await namespace.events('pod/second'), /did not have enough free storage/);
  });
  assert.equal(await namespace.field('pvc/other', '.status.phase'), 'Pending');
  await namespace.remove('pod/first', 'pvc/large');
  await namespace.running('second');
});
