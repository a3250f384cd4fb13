import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import type { Catalog } from '../../../src/pool/catalog/catalog.ts';
import {
  FailedPrecondition,
  HoldfastError,
  InvalidArgument,
  NotFound,
  OutOfRange,
  ResourceExhausted,
  Unavailable,
} from '../../../src/volume/errors.ts';
import { snapshotIdFor, volumeIdFor } from '../../../src/volume/id.ts';
import { eventually } from '../../support/eventually.ts';
import { volumeSpec } from '../../support/image-pool.ts';
import { Scratch } from '../../support/scratch.ts';
import { openCloudPool, type PoolOptions, type TestCloud } from '../clouds.ts';
import type { FakeCloud, FakeVolume } from '../fake-cloud.ts';

const gibibyte = 1n << 30n;
const spec = (name: string, more: object = {}) => volumeSpec(name, { sizeBytes: gibibyte, ...more });

/** What all clouds have in common, on a fake of one. */
export function poolTests(cloud: TestCloud): void {
  const [one, other] = cloud.machines;

  let scratch: Scratch;
  let fake: FakeCloud;
  let pool: Catalog;

  beforeEach(async () => {
    scratch = new Scratch('cloud-pool');
    fake = await cloud.start();
    pool = await openCloudPool(cloud, scratch, fake.url);
  });
  afterEach(async () => {
    await pool.close();
    await fake[Symbol.asyncDispose]();
    scratch[Symbol.dispose]();
  });

  async function reopen(options: PoolOptions = {}): Promise<void> {
    await pool.close();
    pool = await openCloudPool(cloud, scratch, fake.url, options);
  }

  function onlyVolume(): FakeVolume {
    const [volume, second] = fake.volumes.values();
    assert.ok(volume);
    assert.equal(second, undefined);
    return volume;
  }

  describe(`a pool of kind ${cloud.kind}`, () => {
    test('has no encryption of this driver for its classes, as its home has no device', () => {
      assert.equal(pool.traits.encryption, undefined);
    });

    test('makes, finds, grows and deletes volumes', async () => {
      const record = await pool.create(spec('a', { parameters: cloud.fastClass.parameters, sizeBytes: 5n * gibibyte }));
      const volume = onlyVolume();
      assert.equal(volume.sizeGiB, 5);
      assert.equal(volume.tags['team'], 'storage');
      assert.deepEqual(volume.parameters, cloud.fastClass.made);
      assert.deepEqual(pool.cluster?.contextOf(record), { volumeId: volume.id });
      assert.equal(pool.cluster?.topologyOf?.(record)?.['topology.kubernetes.io/zone'], 'eu-test-1a');
      await reopen();
      assert.deepEqual(await pool.find(record.id), record);
      assert.equal((await pool.grow(record.id, 7n * gibibyte)).sizeBytes, 7n * gibibyte);
      assert.equal(onlyVolume().sizeGiB, 7);
      await reopen();
      assert.equal((await pool.find(record.id))?.sizeBytes, 7n * gibibyte);
      await pool.remove(record.id);
      await pool.remove(record.id);
      assert.equal(fake.volumes.size, 0);
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
        fake.troubles = { ...fake.troubles, lostAnswers: 0.4, droppedRequests: 0.1, throttled: 0.2, failed: 0.2 };
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
        fake.troubles = { ...fake.troubles, lostAnswers: 0, droppedRequests: 0, throttled: 0, failed: 0 };
        assert.equal(fake.volumes.size, 1);
        await pool.remove(wanted.id);
        assert.equal(fake.volumes.size, 0);
      }
    });

    test('a volume that a part of the cloud does not know yet is UNAVAILABLE, and not NOT_FOUND', async () => {
      fake.refuseNext(cloud.actions.label, cloud.actions.notFound);
      await assert.rejects(pool.create(spec('a')), Unavailable);
      if ((await pool.find(spec('a').id)) === undefined) await pool.create(spec('a'));
      onlyVolume();
    });

    test('makes one volume though the cloud shows it late', async () => {
      fake.troubles = { ...fake.troubles, lateMs: 80, workMs: 30 };
      await reopen({ pace: { settleMs: 200, bornMs: 400 } });
      const wanted = spec('late');
      const record = await pool.create(wanted);
      await reopen({ pace: { settleMs: 200, bornMs: 400 } });
      if ((await pool.find(record.id)) === undefined) await pool.create(wanted);
      onlyVolume();
      await pool.remove(record.id);
      await fake.settled();
      assert.equal(fake.volumes.size, 0);
    });

    test('deletes a volume that it does not know yet, as it was made a moment before the start', async () => {
      await reopen({ pace: { settleMs: 300, bornMs: 400 } });
      const { id } = await pool.create(spec('a'));
      fake.troubles = { ...fake.troubles, lateMs: 200 };
      const next = await openCloudPool(cloud, scratch, fake.url, { pace: { settleMs: 300, bornMs: 400 } });
      await next.remove(id);
      await next.close();
      assert.equal(fake.volumes.size, 0);
    });

    test('leaves alone what is not its own', async () => {
      const foreign = [
        fake.foreignVolume(),
        fake.foreignVolume({ [cloud.labels.pool]: 'other', [cloud.labels.volume]: spec('a').id }),
        fake.foreignVolume({ [cloud.labels.volume]: spec('a').id }),
      ];
      await fake.settled();
      await reopen();
      assert.deepEqual(await pool.list(undefined, undefined), []);
      await pool.remove(spec('a').id);
      const { id } = await pool.create(spec('a'));
      await pool.remove(id);
      assert.deepEqual(
        [...fake.volumes.keys()],
        foreign.map((each) => each.id),
      );
    });

    test('does not delete a volume that lost its tags', async () => {
      const { id } = await pool.create(spec('a'));
      const volume = onlyVolume();
      await fake.retag(volume.id, { [cloud.labels.pool]: 'other' });
      await assert.rejects(pool.remove(id), FailedPrecondition);
      onlyVolume();
    });

    test('a volume that was deleted by hand is reported, hurts no list, and can be deleted', async () => {
      const record = await pool.create(spec('a'));
      const context = pool.cluster?.contextOf(record);
      fake.deleteByHand(onlyVolume().id);
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
      fake.fail(onlyVolume().id);
      await reopen();
      assert.ok(await pool.find(id));
      assert.equal((await pool.condition(id)).abnormal, true);
      // Without its time of creation it failed while it was made.
      const withoutTime = { ...onlyVolume().tags };
      Reflect.deleteProperty(withoutTime, cloud.labels.created);
      fake.setTags(onlyVolume().id, withoutTime);
      await reopen();
      await assert.rejects(pool.create(spec('a')), {
        name: 'FailedPrecondition',
        message: /has failed: look at it there/,
      });
      onlyVolume();
      await pool.remove(id);
      assert.equal(fake.volumes.size, 0);
    });

    test('reports a damaged record, and leaves its volume', async () => {
      const { id } = await pool.create(spec('a'));
      const volume = onlyVolume();
      await fake.retag(volume.id, { [cloud.labels.record0]: 'changed' });
      await reopen();
      await assert.rejects(
        pool.find(id).then((found) => found ?? pool.grow(id, 2n * gibibyte)),
        HoldfastError,
      );
      onlyVolume();
    });

    test('of two volumes with one id none is touched', async () => {
      const { id } = await pool.create(spec('a'));
      fake.foreignVolume({ ...onlyVolume().tags });
      await fake.settled();
      await reopen();
      await assert.rejects(async () => pool.grow(id, 2n * gibibyte), HoldfastError);
      assert.equal(fake.volumes.size, 2);
    });

    test('refuses in words what the cloud does not have', async () => {
      const refused = (more: object, kind: new (message: string) => HoldfastError) =>
        assert.rejects(pool.create(spec('a', more)), kind);
      for (const parameters of cloud.wrongParameters) await refused({ parameters }, InvalidArgument);
      await refused({ sizeBytes: 100_000n * gibibyte }, OutOfRange);
      await refused({ undeleteSeconds: 3600 }, InvalidArgument);
      await refused({ zone: 'us-nowhere-1a' }, InvalidArgument);
      assert.equal(fake.volumes.size, 0);
    });

    test('a volume whose key may not be used is reported, and made once it may', async () => {
      fake.forbiddenKeys.add(cloud.forbiddenKey);
      fake.troubles = { ...fake.troubles, workMs: 30 };
      const wanted = spec('a', { parameters: cloud.keyParameters });
      await assert.rejects(pool.create(wanted), { name: 'FailedPrecondition', message: /use the (encryption )?key/ });
      assert.equal(fake.volumes.size, 0);
      fake.forbiddenKeys.clear();
      await pool.create(wanted);
      onlyVolume();
    });

    test('a growth that the cloud puts off is UNAVAILABLE, and is done later', async () => {
      const { id } = await pool.create(spec('a'));
      fake.modificationsRefused = true;
      await assert.rejects(pool.grow(id, 2n * gibibyte), { name: Unavailable.name, message: /some hours after/ });
      assert.equal((await pool.find(id))?.sizeBytes, gibibyte);
      fake.modificationsRefused = false;
      assert.equal((await pool.grow(id, 2n * gibibyte)).sizeBytes, 2n * gibibyte);
    });

    test('a growth whose record was not written is finished by the next start', async () => {
      const { id } = await pool.create(spec('a'));
      onlyVolume().sizeGiB = 3;
      await fake.retag(onlyVolume().id, {});
      await reopen();
      assert.equal((await pool.find(id))?.sizeBytes, 3n * gibibyte);
    });

    test('snapshots are taken, found, restored and deleted', async () => {
      const source = await pool.create(spec('a'));
      const snapshot = { id: snapshotIdFor('cluster', 's'), name: 's', sourceId: source.id, parameters: {} };
      fake.troubles = { ...fake.troubles, workMs: 1_000 };
      const [taken] = await pool.takeSnapshots([snapshot]);
      assert.ok(taken);
      assert.equal(await pool.cluster?.isSnapshotReady?.(taken.id), false);
      await assert.rejects(pool.create(spec('b'), { type: 'snapshot', id: taken.id }), FailedPrecondition);
      await fake.settled();
      fake.troubles = { ...fake.troubles, workMs: 0 };
      assert.equal(await pool.cluster?.isSnapshotReady?.(taken.id), true);
      await pool.remove(source.id);
      await reopen();
      assert.deepEqual(await pool.findSnapshot(taken.id), taken);
      const restored = await pool.create(spec('b', { sizeBytes: 2n * gibibyte }), { type: 'snapshot', id: taken.id });
      assert.deepEqual(pool.cluster?.contextOf(restored), { volumeId: onlyVolume().id, restored: 'true' });
      assert.equal(onlyVolume().snapshotId, [...fake.snapshots.keys()][0]);
      await pool.removeSnapshot(taken.id);
      await pool.removeSnapshot(taken.id);
      assert.equal(fake.snapshots.size, 0);
      assert.equal(await pool.findSnapshot(taken.id), undefined);
    });

    test('takes one snapshot, though its answer is lost and the cloud shows it late', async () => {
      const source = await pool.create(spec('a'));
      await reopen({ pace: { settleMs: 150 } });
      const snapshot = { id: snapshotIdFor('cluster', 's'), name: 's', sourceId: source.id, parameters: {} };
      fake.troubles = { ...fake.troubles, lateMs: 100 };
      fake.loseNext(cloud.actions.snapshot);
      // A cloud that knows requests again is asked once more.
      await pool.takeSnapshots([snapshot]).catch((error: unknown) => assert.ok(error instanceof Unavailable));
      if ((await pool.findSnapshot(snapshot.id)) === undefined) await pool.takeSnapshots([snapshot]);
      assert.equal(fake.snapshots.size, 1);
      await pool.removeSnapshot(snapshot.id);
      assert.equal(fake.snapshots.size, 0);
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
      assert.equal(fake.volumes.size, 1);
      assert.equal(fake.snapshots.size, 0);
    });

    test('a cloud that cannot be reached is reported, and hurts no volume', async () => {
      const { id } = await pool.create(spec('a'));
      fake.troubles = { ...fake.troubles, droppedRequests: 1 };
      await assert.rejects(pool.create(spec('b')), Unavailable);
      await assert.rejects(pool.remove(id), Unavailable);
      fake.troubles = { ...fake.troubles, droppedRequests: 0, throttled: 1 };
      await assert.rejects(pool.create(spec('b')), { message: /LimitExceeded/i });
      fake.troubles = { ...fake.troubles, throttled: 0 };
      assert.ok(await pool.find(id));
      await pool.create(spec('b'));
      assert.equal(fake.volumes.size, 2);
    });
  });

  describe(`the publication of volumes of kind ${cloud.kind}`, () => {
    const publisher = () => pool.cluster?.publisher ?? assert.fail();

    beforeEach(() => {
      fake.instance(one);
      fake.instance(other);
    });

    test('attaches and detaches, twice and late, and says who may format', async () => {
      const record = await pool.create(spec('a'));
      assert.deepEqual(await publisher().publish(record, one), { firstUse: 'true' });
      assert.deepEqual(await publisher().publish(record, one), { firstUse: 'true' });
      assert.equal(onlyVolume().attachment?.instance, one);
      await assert.rejects(publisher().publish(record, other), FailedPrecondition);
      await publisher().unpublish(record.id, other);
      assert.equal(onlyVolume().attachment?.instance, one);
      await publisher().unpublish(record.id, one);
      await publisher().unpublish(record.id, one);
      assert.equal(onlyVolume().attachment, undefined);
      assert.deepEqual(await publisher().publish(record, one), {});
      await publisher().unpublish(record.id, undefined);
      assert.equal(onlyVolume().attachment, undefined);
      assert.deepEqual(await publisher().publish(record, other), {});
    });

    test('a volume that was never attached may be formatted by the next node', async () => {
      const record = await pool.create(spec('a'));
      fake.instance(one, { maxVolumes: 0 });
      await assert.rejects(publisher().publish(record, one), ResourceExhausted);
      await publisher().unpublish(record.id, one);
      assert.deepEqual(await publisher().publish(record, other), { firstUse: 'true' });
    });

    test('a volume that the cloud does not show as attached yet is detached', async () => {
      const record = await pool.create(spec('a'));
      await publisher().publish(record, one);
      // Looks are so old that the volume was not attached then.
      fake.showDetached(record.id);
      await publisher().unpublish(record.id, one);
      await fake.settled();
      assert.equal(onlyVolume().attachment, undefined);
    });

    test('a volume that lost its tags is detached anyway', async () => {
      const record = await pool.create(spec('a'));
      await publisher().publish(record, one);
      await fake.retag(onlyVolume().id, { [cloud.labels.pool]: 'other' });
      await publisher().unpublish(record.id, one);
      assert.equal(onlyVolume().attachment, undefined);
    });

    test('an attached volume is not deleted', async () => {
      const record = await pool.create(spec('a'));
      await publisher().publish(record, one);
      await assert.rejects(pool.remove(record.id), FailedPrecondition);
      assert.ok(await pool.find(record.id));
    });

    test('an attachment that was ended and is still shown is not taken for a new one', async () => {
      const record = await pool.create(spec('a'));
      await reopen({ pace: { settleMs: 5_000 } });
      await publisher().publish(record, one);
      const show = fake.picture(record.id);
      await publisher().unpublish(record.id, one);
      show();
      const publishing = publisher().publish(record, one);
      await eventually(() => assert.equal(onlyVolume().attachment?.status, 'attached'));
      fake.thaw();
      await publishing;
    });

    test('a machine that hangs keeps the volume, and nothing else gets it', async () => {
      const record = await pool.create(spec('a'));
      await reopen({ pace: { waitMs: 100 } });
      await publisher().publish(record, one);
      fake.hungInstances.add(one);
      await assert.rejects(publisher().unpublish(record.id, one), { name: 'Unavailable', message: /stop it/ });
      await assert.rejects(publisher().publish(record, other), Unavailable);
    });

    test('machines that are not there, are full or are in another zone are told apart', async () => {
      const record = await pool.create(spec('a'));
      await assert.rejects(publisher().requireNode('node-7'), NotFound);
      await assert.rejects(publisher().requireNode(cloud.missingMachine), NotFound);
      const far = fake.instance(cloud.machineIn('eu-test-1b'), { zone: 'eu-test-1b' });
      await assert.rejects(publisher().publish(record, far), FailedPrecondition);
    });

    test('volumes that a person names are attached and detached, and never those of a pool', async () => {
      const foreign = fake.foreignVolume();
      await fake.settled();
      assert.ok(publisher().reaches(foreign.id));
      assert.ok(!publisher().reaches(volumeIdFor('a', 'b', 'c')));
      assert.deepEqual(await publisher().publishProvided(foreign.id, one), {});
      assert.equal(foreign.attachment?.instance, one);
      await publisher().unpublishProvided(foreign.id, one);
      assert.equal(foreign.attachment, undefined);
      await pool.create(spec('a'));
      const own = [...fake.volumes.keys()].at(-1) ?? '';
      await assert.rejects(publisher().publishProvided(own, one), InvalidArgument);
    });
  });
}
