import assert from 'node:assert/strict';
import { fleet } from '../harness/fleet/current.ts';
import { fleetTest } from '../harness/fleet/fleet-test.ts';
import { type ClaimPlan, claim, fromClaim, fromSnapshot, pod, snapshot } from '../harness/objects.ts';

const sources: readonly [string, NonNullable<ClaimPlan['dataSource']>][] = [
  ['a restored snapshot', fromSnapshot('cut')],
  ['a clone', fromClaim('data')],
];

/* The pod of the source is there, so the scheduler likes every other node better, again and again. */
for (const [what, dataSource] of sources) {
  fleetTest(`${what} whose pod may run anywhere: both go to the node of the source`, async (namespace) => {
    const script = 'echo before > /data/file; sync /data/file';
    await namespace.apply(claim('data'), pod('writer', { volumes: { data: 'data' }, node: 'node-b', script }));
    await namespace.running('writer');
    await namespace.apply(snapshot('cut', 'data'));
    await namespace.wait('--for=jsonpath={.status.readyToUse}=true', 'volumesnapshot/cut');
    await namespace.apply(claim('copy', { dataSource }), pod('reader', { volumes: { data: 'copy' } }));
    await namespace.running('reader');
    assert.equal(await namespace.field('pod/reader', '.spec.nodeName'), 'node-b');
    assert.equal(await namespace.exec('reader', 'cat /data/file'), 'before');
    assert.deepEqual(fleet().nodesWith((await namespace.volumeOf('copy')).handle), ['node-b']);
  });
}
