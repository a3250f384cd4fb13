import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import type { Catalog } from '../../src/pool/catalog/catalog.ts';
import {
  FailedPrecondition,
  HoldfastError,
  InvalidArgument,
  NotFound,
  OutOfRange,
  ResourceExhausted,
  Unavailable,
} from '../../src/volume/errors.ts';
import { snapshotIdFor, volumeIdFor } from '../../src/volume/id.ts';
import { openEbsPool } from '../support/ebs-pool.ts';
import { volumeSpec } from '../support/image-pool.ts';
import { Scratch } from '../support/scratch.ts';
import { FakeEc2 } from './ec2/fake-ec2.ts';

/* A pool of EBS volumes, on a fake of EC2. */

let scratch: Scratch;
let ec2: FakeEc2;
let pool: Catalog;
const gibibyte = 1n << 30n;

beforeEach(async () => {
  scratch = new Scratch('ebs-pool');
  ec2 = await FakeEc2.start();
  pool = await openEbsPool(scratch, ec2.url);
});
afterEach(async () => {
  await pool.close();
  await ec2[Symbol.asyncDispose]();
  scratch[Symbol.dispose]();
});

const spec = (name: string, more: object = {}) => volumeSpec(name, { sizeBytes: gibibyte, ...more });

async function reopen(options: Parameters<typeof openEbsPool>[2] = {}): Promise<void> {
  await pool.close();
  pool = await openEbsPool(scratch, ec2.url, options);
}

function onlyVolume() {
  const [volume, other] = ec2.volumes.values();
  assert.ok(volume);
  assert.equal(other, undefined);
  return volume;
}

describe('a pool of EBS volumes', () => {
  test('makes, finds, grows and deletes volumes', async () => {
    const record = await pool.create(
      spec('a', { parameters: { type: 'io2', iops: '4000' }, sizeBytes: 5n * gibibyte }),
    );
    const volume = onlyVolume();
    assert.equal(volume.sizeGiB, 5);
    assert.equal(volume.tags['Name'], 'a');
    assert.equal(volume.tags['team'], 'storage');
    assert.deepEqual(volume.parameters, { type: 'io2', iops: '4000', key: '' });
    assert.deepEqual(pool.cluster?.contextOf(record), { volumeId: volume.id });
    assert.deepEqual(pool.cluster?.topologyOf?.(record), { 'topology.kubernetes.io/zone': 'eu-test-1a' });
    await reopen();
    assert.deepEqual(await pool.find(record.id), record);
    assert.equal((await pool.grow(record.id, 7n * gibibyte)).sizeBytes, 7n * gibibyte);
    assert.equal(onlyVolume().sizeGiB, 7);
    await reopen();
    assert.equal((await pool.find(record.id))?.sizeBytes, 7n * gibibyte);
    await pool.remove(record.id);
    await pool.remove(record.id);
    assert.equal(ec2.volumes.size, 0);
  });

  test('makes a volume of a name that was deleted, with the same values and with others', async () => {
    const { id } = await pool.create(spec('a'));
    await pool.remove(id);
    await pool.create(spec('a'));
    await pool.remove(id);
    await pool.create(spec('a', { sizeBytes: 2n * gibibyte }));
    assert.equal(onlyVolume().sizeGiB, 2);
    await pool.remove(id);
    await reopen();
    await pool.create(spec('a'));
    assert.equal(onlyVolume().sizeGiB, 1);
  });

  test('makes one volume, however many answers are lost', async () => {
    for (let number = 0; number < 30; number++) {
      ec2.troubles = { ...ec2.troubles, lostAnswers: 0.4, droppedRequests: 0.1, throttled: 0.2, failed: 0.2 };
      const wanted = spec(`v${number}`);
      for (;;) {
        const done = await pool.create(wanted).then(
          () => true,
          async (error: unknown) => {
            assert.ok(error instanceof HoldfastError, String(error));
            return (await pool.find(wanted.id).catch(() => undefined)) !== undefined;
          },
        );
        if (done) break;
      }
      ec2.troubles = { ...ec2.troubles, lostAnswers: 0, droppedRequests: 0, throttled: 0, failed: 0 };
      assert.equal(ec2.volumes.size, 1);
      await pool.remove(wanted.id);
      assert.equal(ec2.volumes.size, 0);
    }
  });

  test('a volume that a part of EC2 does not know yet is UNAVAILABLE, and not NOT_FOUND', async () => {
    ec2.refuseNext('CreateTags', 'InvalidVolume.NotFound');
    await assert.rejects(pool.create(spec('a')), Unavailable);
    if ((await pool.find(spec('a').id)) === undefined) await pool.create(spec('a'));
    onlyVolume();
  });

  test('makes one volume though EC2 shows it late', async () => {
    ec2.troubles = { ...ec2.troubles, lateMs: 80, workMs: 30 };
    await reopen({ pace: { settleMs: 200, bornMs: 400 } });
    const wanted = spec('late');
    const record = await pool.create(wanted);
    await reopen({ pace: { settleMs: 200, bornMs: 400 } });
    if ((await pool.find(record.id)) === undefined) await pool.create(wanted);
    onlyVolume();
    await pool.remove(record.id);
    await ec2.settled();
    assert.equal(ec2.volumes.size, 0);
  });

  test('deletes a volume that it does not know yet, as it was made a moment before the start', async () => {
    await reopen({ pace: { settleMs: 300, bornMs: 400 } });
    const { id } = await pool.create(spec('a'));
    ec2.troubles = { ...ec2.troubles, lateMs: 200 };
    const other = await openEbsPool(scratch, ec2.url, { pace: { settleMs: 300, bornMs: 400 } });
    await other.remove(id);
    await other.close();
    assert.equal(ec2.volumes.size, 0);
  });

  test('leaves alone what is not its own', async () => {
    const foreign = [
      ec2.foreignVolume(),
      ec2.foreignVolume({ 'holdfast.dev/pool': 'other', 'holdfast.dev/volume': spec('a').id }),
      ec2.foreignVolume({ 'holdfast.dev/volume': spec('a').id }),
    ];
    await ec2.settled();
    await reopen();
    assert.deepEqual(await pool.list(undefined, undefined), []);
    await pool.remove(spec('a').id);
    const { id } = await pool.create(spec('a'));
    await pool.remove(id);
    assert.deepEqual(
      [...ec2.volumes.keys()],
      foreign.map((each) => each.id),
    );
  });

  test('does not delete a volume that lost its tags', async () => {
    const { id } = await pool.create(spec('a'));
    const volume = onlyVolume();
    await ec2.retag(volume.id, { 'holdfast.dev/pool': 'other' });
    await assert.rejects(pool.remove(id), FailedPrecondition);
    onlyVolume();
  });

  test('a volume that was deleted by hand is reported, hurts no list, and can be deleted', async () => {
    const record = await pool.create(spec('a'));
    const context = pool.cluster?.contextOf(record);
    ec2.deleteByHand(onlyVolume().id);
    await assert.rejects(pool.grow(record.id, 2n * gibibyte), NotFound);
    assert.deepEqual(pool.cluster?.contextOf(record), context);
    assert.deepEqual((await pool.list(undefined, undefined)).length, 1);
    assert.equal((await pool.condition(record.id)).abnormal, true);
    await pool.remove(record.id);
    assert.deepEqual(await pool.list(undefined, undefined), []);
    await pool.create(spec('a'));
    onlyVolume();
  });

  test('a volume that fails is reported, and not deleted unasked', async () => {
    const { id } = await pool.create(spec('a'));
    ec2.fail(onlyVolume().id);
    await reopen();
    assert.ok(await pool.find(id));
    assert.equal((await pool.condition(id)).abnormal, true);
    // Without its time of creation it failed while it was made.
    const withoutTime = { ...onlyVolume().tags };
    Reflect.deleteProperty(withoutTime, 'holdfast.dev/created');
    ec2.setTags(onlyVolume().id, withoutTime);
    await reopen();
    await assert.rejects(pool.create(spec('a')), {
      name: 'FailedPrecondition',
      message: /has failed: look at it there/,
    });
    onlyVolume();
    await pool.remove(id);
    assert.equal(ec2.volumes.size, 0);
  });

  test('reports a damaged record, and leaves its volume', async () => {
    const { id } = await pool.create(spec('a'));
    const volume = onlyVolume();
    await ec2.retag(volume.id, { 'holdfast.dev/record.0': 'changed' });
    await reopen();
    await assert.rejects(
      pool.find(id).then((found) => found ?? pool.grow(id, 2n * gibibyte)),
      HoldfastError,
    );
    onlyVolume();
  });

  test('of two volumes with one id none is touched', async () => {
    const { id } = await pool.create(spec('a'));
    ec2.foreignVolume({ ...onlyVolume().tags });
    await ec2.settled();
    await reopen();
    await assert.rejects(async () => pool.grow(id, 2n * gibibyte), HoldfastError);
    assert.equal(ec2.volumes.size, 2);
  });

  test('refuses in words what EC2 does not have', async () => {
    const refused = (more: object, kind: new (message: string) => HoldfastError) =>
      assert.rejects(pool.create(spec('a', more)), kind);
    await refused({ parameters: { type: 'gp9' } }, InvalidArgument);
    await refused({ parameters: { type: 'io1' } }, InvalidArgument);
    await refused({ parameters: { iops: '3000', type: 'st1' } }, InvalidArgument);
    await refused({ parameters: { kmsKeyId: 'alias/a' } }, InvalidArgument);
    await refused({ sizeBytes: 100_000n * gibibyte }, OutOfRange);
    await refused({ undeleteSeconds: 3600 }, InvalidArgument);
    await refused({ zone: 'us-nowhere-1a' }, InvalidArgument);
    assert.equal(ec2.volumes.size, 0);
  });

  test('a volume whose key may not be used is reported, and made once it may', async () => {
    ec2.forbiddenKeys.add('alias/secret');
    ec2.troubles = { ...ec2.troubles, workMs: 30 };
    const wanted = spec('a', { parameters: { encrypted: 'true', kmsKeyId: 'alias/secret' } });
    await assert.rejects(pool.create(wanted), { name: 'FailedPrecondition', message: /kmsKeyId/ });
    assert.equal(ec2.volumes.size, 0);
    ec2.forbiddenKeys.clear();
    await pool.create(wanted);
    onlyVolume();
  });

  test('a growth that EC2 puts off is UNAVAILABLE, and is done later', async () => {
    const { id } = await pool.create(spec('a'));
    ec2.modificationsRefused = true;
    await assert.rejects(pool.grow(id, 2n * gibibyte), { name: Unavailable.name, message: /some hours after/ });
    assert.equal((await pool.find(id))?.sizeBytes, gibibyte);
    ec2.modificationsRefused = false;
    assert.equal((await pool.grow(id, 2n * gibibyte)).sizeBytes, 2n * gibibyte);
  });

  test('a growth whose record was not written is finished by the next start', async () => {
    const { id } = await pool.create(spec('a'));
    onlyVolume().sizeGiB = 3;
    await ec2.retag(onlyVolume().id, {});
    await reopen();
    assert.equal((await pool.find(id))?.sizeBytes, 3n * gibibyte);
  });

  test('snapshots are taken, found, restored and deleted', async () => {
    const source = await pool.create(spec('a'));
    const snapshot = { id: snapshotIdFor('cluster', 's'), name: 's', sourceId: source.id, parameters: {} };
    ec2.troubles = { ...ec2.troubles, workMs: 1_000 };
    const [taken] = await pool.takeSnapshots([snapshot]);
    assert.ok(taken);
    assert.equal(await pool.cluster?.isSnapshotReady?.(taken.id), false);
    await assert.rejects(pool.create(spec('b'), { type: 'snapshot', id: taken.id }), FailedPrecondition);
    await ec2.settled();
    ec2.troubles = { ...ec2.troubles, workMs: 0 };
    assert.equal(await pool.cluster?.isSnapshotReady?.(taken.id), true);
    await pool.remove(source.id);
    await reopen();
    assert.deepEqual(await pool.findSnapshot(taken.id), taken);
    const restored = await pool.create(spec('b', { sizeBytes: 2n * gibibyte }), { type: 'snapshot', id: taken.id });
    assert.deepEqual(pool.cluster?.contextOf(restored), { volumeId: onlyVolume().id, restored: 'true' });
    assert.equal(onlyVolume().snapshotId, [...ec2.snapshots.keys()][0]);
    await pool.removeSnapshot(taken.id);
    await pool.removeSnapshot(taken.id);
    assert.equal(ec2.snapshots.size, 0);
    assert.equal(await pool.findSnapshot(taken.id), undefined);
  });

  test('takes one snapshot, though its answer is lost and EC2 shows it late', async () => {
    const source = await pool.create(spec('a'));
    await reopen({ pace: { settleMs: 150 } });
    const snapshot = { id: snapshotIdFor('cluster', 's'), name: 's', sourceId: source.id, parameters: {} };
    ec2.troubles = { ...ec2.troubles, lateMs: 100 };
    ec2.loseNext('CreateSnapshot');
    await assert.rejects(pool.takeSnapshots([snapshot]), Unavailable);
    if ((await pool.findSnapshot(snapshot.id)) === undefined) await pool.takeSnapshots([snapshot]);
    assert.equal(ec2.snapshots.size, 1);
    await pool.removeSnapshot(snapshot.id);
    assert.equal(ec2.snapshots.size, 0);
  });

  test('has no copies of volumes, no groups, no trash, and reaches no volume in its home', async () => {
    const { id } = await pool.create(spec('a'));
    await assert.rejects(pool.create(spec('b'), { type: 'volume', id }), InvalidArgument);
    const group = { id: 'group-aaaaaaaaaaaaaaaaaaaaaaaaaa' as never, name: 'g', parameters: {} };
    const members = [{ id: snapshotIdFor('cluster', 's'), name: 's', sourceId: id, parameters: {} }];
    await assert.rejects(pool.takeSnapshots(members, group), FailedPrecondition);
    await assert.rejects(pool.attach(id, { persistent: false }), FailedPrecondition);
    assert.deepEqual(await pool.trash(), []);
    assert.equal((await pool.condition(id)).abnormal, false);
    assert.equal(ec2.volumes.size, 1);
    assert.equal(ec2.snapshots.size, 0);
  });

  test('EC2 that cannot be reached is reported, and hurts no volume', async () => {
    const { id } = await pool.create(spec('a'));
    ec2.troubles = { ...ec2.troubles, droppedRequests: 1 };
    await assert.rejects(pool.create(spec('b')), Unavailable);
    await assert.rejects(pool.remove(id), Unavailable);
    ec2.troubles = { ...ec2.troubles, droppedRequests: 0, throttled: 1 };
    await assert.rejects(pool.create(spec('b')), { message: /RequestLimitExceeded/ });
    ec2.troubles = { ...ec2.troubles, throttled: 0 };
    assert.ok(await pool.find(id));
    await pool.create(spec('b'));
    assert.equal(ec2.volumes.size, 2);
  });
});

describe('the publication of EBS volumes', () => {
  const publisher = () => pool.cluster?.publisher ?? assert.fail();

  beforeEach(() => {
    ec2.instance('i-00000001');
    ec2.instance('i-00000002');
  });

  test('attaches and detaches, twice and late, and says who may format', async () => {
    const record = await pool.create(spec('a'));
    assert.deepEqual(await publisher().publish(record, 'i-00000001'), { firstUse: 'true' });
    assert.deepEqual(await publisher().publish(record, 'i-00000001'), { firstUse: 'true' });
    assert.equal(onlyVolume().attachment?.instance, 'i-00000001');
    await assert.rejects(publisher().publish(record, 'i-00000002'), FailedPrecondition);
    await publisher().unpublish(record.id, 'i-00000002');
    assert.equal(onlyVolume().attachment?.instance, 'i-00000001');
    await publisher().unpublish(record.id, 'i-00000001');
    await publisher().unpublish(record.id, 'i-00000001');
    assert.equal(onlyVolume().attachment, undefined);
    assert.deepEqual(await publisher().publish(record, 'i-00000001'), {});
    await publisher().unpublish(record.id, undefined);
    assert.equal(onlyVolume().attachment, undefined);
    assert.deepEqual(await publisher().publish(record, 'i-00000002'), {});
  });

  test('a volume that was never attached may be formatted by the next node', async () => {
    const record = await pool.create(spec('a'));
    ec2.instance('i-00000001', { maxVolumes: 0 });
    await assert.rejects(publisher().publish(record, 'i-00000001'), ResourceExhausted);
    await publisher().unpublish(record.id, 'i-00000001');
    assert.deepEqual(await publisher().publish(record, 'i-00000002'), { firstUse: 'true' });
  });

  test('a volume that EC2 does not show as attached yet is detached', async () => {
    const record = await pool.create(spec('a'));
    await publisher().publish(record, 'i-00000001');
    // Looks are so old that the volume was not attached then.
    ec2.showDetached(record.id);
    await publisher().unpublish(record.id, 'i-00000001');
    await ec2.settled();
    assert.equal(onlyVolume().attachment, undefined);
  });

  test('a volume that lost its tags is detached anyway', async () => {
    const record = await pool.create(spec('a'));
    await publisher().publish(record, 'i-00000001');
    await ec2.retag(onlyVolume().id, { 'holdfast.dev/pool': 'other' });
    await publisher().unpublish(record.id, 'i-00000001');
    assert.equal(onlyVolume().attachment, undefined);
  });

  test('an attached volume is not deleted', async () => {
    const record = await pool.create(spec('a'));
    await publisher().publish(record, 'i-00000001');
    await assert.rejects(pool.remove(record.id), FailedPrecondition);
    assert.ok(await pool.find(record.id));
  });

  test('an attachment that is stuck is ended, and made again under another name', async () => {
    const record = await pool.create(spec('a'));
    await reopen({ pace: { waitMs: 100, stuckMs: 50 } });
    ec2.stuckNames.add('i-00000001 /dev/xvdaa');
    let tries = 0;
    const attach = (): Promise<unknown> =>
      publisher()
        .publish(record, 'i-00000001')
        .catch((error: unknown) => {
          assert.ok(error instanceof Unavailable, String(error));
          assert.ok(++tries < 10);
          return attach();
        });
    await attach();
    assert.notEqual(onlyVolume().attachment?.device, '/dev/xvdaa');
    assert.equal(onlyVolume().attachment?.status, 'attached');
  });

  test('volumes that are attached at once get names of their own', async () => {
    await reopen({ pace: { settleMs: 200, bornMs: 400 } });
    const records = await Promise.all(Array.from({ length: 12 }, (_, number) => pool.create(spec(`v${number}`))));
    ec2.troubles = { ...ec2.troubles, lateMs: 50, workMs: 20 };
    await Promise.all(records.map((record) => publisher().publish(record, 'i-00000001')));
    const devices = [...ec2.volumes.values()].map(({ attachment }) => attachment?.device);
    assert.equal(new Set(devices).size, 12);
  });

  test('a machine that hangs keeps the volume, and nothing else gets it', async () => {
    const record = await pool.create(spec('a'));
    await reopen({ pace: { waitMs: 100 } });
    await publisher().publish(record, 'i-00000001');
    ec2.hungInstances.add('i-00000001');
    await assert.rejects(publisher().unpublish(record.id, 'i-00000001'), { name: 'Unavailable', message: /stop it/ });
    await assert.rejects(publisher().publish(record, 'i-00000002'), Unavailable);
  });

  test('machines that are not there, are full or are in another zone are told apart', async () => {
    const record = await pool.create(spec('a'));
    await assert.rejects(publisher().requireNode('node-7'), NotFound);
    await assert.rejects(publisher().requireNode('i-00000009'), NotFound);
    ec2.instance('i-00000003', { zone: 'eu-test-1b' });
    await assert.rejects(publisher().publish(record, 'i-00000003'), FailedPrecondition);
  });

  test('volumes that a person names are attached and detached, and never those of a pool', async () => {
    const foreign = ec2.foreignVolume();
    await ec2.settled();
    assert.ok(publisher().reaches(foreign.id));
    assert.ok(!publisher().reaches(volumeIdFor('a', 'b', 'c')));
    assert.deepEqual(await publisher().publishProvided(foreign.id, 'i-00000001'), {});
    assert.equal(foreign.attachment?.instance, 'i-00000001');
    await publisher().unpublishProvided(foreign.id, 'i-00000001');
    assert.equal(foreign.attachment, undefined);
    await pool.create(spec('a'));
    const own = [...ec2.volumes.keys()].at(-1) ?? '';
    await assert.rejects(publisher().publishProvided(own, 'i-00000001'), InvalidArgument);
  });
});
