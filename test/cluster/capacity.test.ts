import assert from 'node:assert/strict';
import { clusterTest } from './harness/cluster-test.ts';
import { cluster } from './harness/current.ts';
import { claim, pod } from './harness/objects.ts';
import { waitFor } from './harness/waiting.ts';

clusterTest('a claim that no node has room for waits, and is bound when another one goes', async (namespace) => {
  // More than half of what can be promised, however large this machine's disk is.
  const pools = await cluster().driver.holdfast('pools', '--json');
  const availableBytes = Number(/"availableBytes": *"?(\d+)/.exec(pools)?.[1]);
  const size = `${Math.floor((availableBytes * 0.6) / 2 ** 20)}Mi`;
  await namespace.apply(claim('large', { size }), pod('first', { volumes: { data: 'large' } }));
  await namespace.running('first');
  await namespace.apply(claim('other', { size }), pod('second', { volumes: { data: 'other' } }));
  await waitFor('the scheduler to say why the pod waits', async () => {
    assert.match(await namespace.events('pod/second'), /did not have enough free storage/);
  });
  assert.equal(await namespace.field('pvc/other', '.status.phase'), 'Pending');
  await namespace.remove('pod/first', 'pvc/large');
  await namespace.running('second');
});
