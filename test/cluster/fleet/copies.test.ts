import assert from 'node:assert/strict';
import { makeImmediateClass } from '../harness/fleet/classes.ts';
import { fleet } from '../harness/fleet/current.ts';
import { fleetTest } from '../harness/fleet/fleet-test.ts';
import type { Namespace } from '../harness/namespace.ts';
import { type ClaimPlan, claim, fromClaim, fromSnapshot, pod, snapshot } from '../harness/objects.ts';
import { waitFor } from '../harness/waiting.ts';

/** A volume on node-b with a file, and a snapshot of it. */
async function makeSource(namespace: Namespace): Promise<void> {
  const script = 'echo before > /data/file; sync /data/file';
  await namespace.apply(claim('data'), pod('writer', { volumes: { data: 'data' }, node: 'node-b', script }));
  await namespace.running('writer');
  await namespace.apply(snapshot('cut', 'data'));
  await namespace.wait('--for=jsonpath={.status.readyToUse}=true', 'volumesnapshot/cut');
}

const sources: readonly [string, ClaimPlan['dataSource']][] = [
  ['a restored snapshot', fromSnapshot('cut')],
  ['a clone', fromClaim('data')],
];

for (const [what, dataSource] of sources) {
  if (dataSource === undefined) continue;
  fleetTest(`${what}, Immediate: it is made beside its source, and its pod goes there`, async (namespace) => {
    await makeSource(namespace);
    await using immediate = await makeImmediateClass(namespace);
    await namespace.apply(claim('copy', { dataSource, storageClass: immediate.name }));
    await namespace.bound('copy');
    const { handle } = await namespace.volumeOf('copy');
    assert.deepEqual(fleet().nodesWith(handle), ['node-b']);
    await namespace.apply(pod('reader', { volumes: { data: 'copy' } }));
    await namespace.running('reader');
    assert.equal(await namespace.field('pod/reader', '.spec.nodeName'), 'node-b');
    assert.equal(await namespace.exec('reader', 'cat /data/file'), 'before');
  });

  fleetTest(`${what} whose pod is to be on the node of the source`, async (namespace) => {
    await makeSource(namespace);
    await namespace.apply(claim('copy', { dataSource }), pod('reader', { volumes: { data: 'copy' }, node: 'node-b' }));
    await namespace.running('reader');
    assert.equal(await namespace.exec('reader', 'cat /data/file'), 'before');
  });

  fleetTest(`${what} whose pod may only be on another node: the claim says where the source is`, async (namespace) => {
    await makeSource(namespace);
    await namespace.apply(claim('copy', { dataSource }), pod('reader', { volumes: { data: 'copy' }, node: 'node-c' }));
    await waitFor('the claim to tell', async () => {
      assert.match(
        await namespace.events('pvc/copy'),
        /cannot be made there: \S+ is on node-b, and a volume made from/,
      );
    });
    // It is made all the same, where alone it can be, and the pod is told why it waits.
    await namespace.bound('copy');
    assert.deepEqual(fleet().nodesWith((await namespace.volumeOf('copy')).handle), ['node-b']);
    await waitFor('the pod to be told', async () => {
      assert.match(await namespace.events('pod/reader'), /node affinity/);
    });
    assert.equal(await namespace.field('pod/reader', '.status.phase'), 'Pending');
    await namespace.remove('pod/reader', 'pvc/copy');
  });
}
