/**
 * A second opinion: the pool against moto (github.com/getmoto/moto), an imitation of EC2 that nobody here wrote. It attaches at once
 * and knows no tokens. Run by hand: pip install 'moto[ec2,server]', moto_server, then
 * node test/cloud/moto.ts http://127.0.0.1:5000/
 */
import assert from 'node:assert/strict';
import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import { Ec2Client } from '../../src/pool/kinds/aws-ebs/ec2/client.ts';
import { CredentialSource } from '../../src/pool/kinds/aws-ebs/ec2/credentials.ts';
import { InstanceMetadata } from '../../src/pool/kinds/aws-ebs/ec2/metadata.ts';
import { itemsIn, textOf } from '../../src/pool/kinds/aws-ebs/ec2/xml.ts';
import { openEbsBackend } from '../../src/pool/kinds/aws-ebs/open.ts';
import { openOver } from '../../src/pool/open.ts';
import { FailedPrecondition, NotFound } from '../../src/volume/errors.ts';
import { snapshotIdFor } from '../../src/volume/id.ts';
import { volumeSpec } from '../support/image-pool.ts';
import { Scratch } from '../support/scratch.ts';
import { testSettings } from '../support/test-pool.ts';
import { ebs, fastPace } from './clouds.ts';

const [, , url = 'http://127.0.0.1:5000/'] = process.argv;
const region = 'eu-test-1';
const queue = new DiskQueue('moto', 1);
const environment = ebs.environment({ join: () => '' }, url);
const metadata = new InstanceMetadata(undefined);
const credentials = new CredentialSource({ environment, region, queue, metadata });
const client = new Ec2Client({
  endpoint: new URL(url),
  region: 'eu-central-1',
  credentials,
  timeoutMs: 20_000,
  pausesMs: [],
});
const [image] = itemsIn(await client.call('DescribeImages', {}, true), 'imagesSet');
assert.ok(image);
const run = await client.call(
  'RunInstances',
  { ImageId: textOf(image, 'imageId'), MinCount: '2', MaxCount: '2', InstanceType: 't3.micro' },
  false,
);
const machines = itemsIn(run, 'instancesSet');
const [one = '', other = ''] = machines.map((each) => textOf(each, 'instanceId'));
const zone = machines[0] === undefined ? '' : textOf(machines[0], 'placement', 'availabilityZone');

using scratch = new Scratch('moto');
const settings = {
  ...{ ...testSettings(scratch), path: '/', poolId: 'moto', region: 'eu-central-1', zone, tags: {}, environment },
  ...{ endpoint: new URL(url), pace: fastPace },
};
const open = () => openOver(() => openEbsBackend(settings), settings);
let pool = await open();
const record = await pool.create(volumeSpec('a', { sizeBytes: 5n << 30n, parameters: { encrypted: 'true' } }));
await pool.close();
pool = await open();
assert.deepEqual(await pool.find(record.id), record);
const publisher = pool.cluster?.publisher ?? assert.fail();
await publisher.requireNode(one);
await assert.rejects(publisher.requireNode('i-0123456789abcdef0'), NotFound);
for (const _try of [1, 2]) assert.deepEqual(await publisher.publish(record, one), { firstUse: 'true' });
await assert.rejects(publisher.publish(record, other), FailedPrecondition);
await assert.rejects(pool.remove(record.id), FailedPrecondition);
assert.equal((await pool.grow(record.id, 6n << 30n)).sizeBytes, 6n << 30n);
for (const _try of [1, 2]) await publisher.unpublish(record.id, one);
assert.deepEqual(await publisher.publish(record, other), {});
await publisher.unpublish(record.id, undefined);
const snapshot = { id: snapshotIdFor('cluster', 's'), name: 's', sourceId: record.id, parameters: {} };
const [taken] = await pool.takeSnapshots([snapshot]);
assert.equal(await pool.cluster?.isSnapshotReady?.(snapshot.id), true);
await pool.close();
pool = await open();
assert.deepEqual(await pool.findSnapshot(snapshot.id), taken);
const restored = await pool.create(volumeSpec('b', { sizeBytes: 6n << 30n }), { type: 'snapshot', id: snapshot.id });
await pool.removeSnapshot(snapshot.id);
for (const { id } of [record, record, restored]) await pool.remove(id);
const filter = { 'Filter.1.Name': 'tag:holdfast.dev/pool', 'Filter.1.Value.1': 'moto' };
assert.deepEqual(itemsIn(await client.call('DescribeVolumes', filter, true), 'volumeSet'), []);
await pool.close();
console.log('moto agrees');
