import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import type { Catalog } from '../../src/pool/catalog/catalog.ts';
import {
  FailedPrecondition,
  InvalidArgument,
  NotFound,
  ResourceExhausted,
  Unavailable,
} from '../../src/volume/errors.ts';
import type { VolumeRecord } from '../../src/volume/record.ts';
import { eventually } from '../support/eventually.ts';
import { volumeSpec } from '../support/image-pool.ts';
import { Scratch } from '../support/scratch.ts';
import { gce, openCloudPool, type PoolOptions } from './clouds.ts';
import { type FakeGce, fakeProject } from './gce/fake-gce.ts';
import { poolTests } from './suite/pool.ts';

/* A pool of persistent disks, on a fake of Compute Engine. */

poolTests(gce);

describe('what only persistent disks have', () => {
  const [one, other] = gce.machines;
  const gibibyte = 1n << 30n;
  const spec = (name: string, more: object = {}) => volumeSpec(name, { sizeBytes: gibibyte, ...more });
  let scratch: Scratch;
  let fake: FakeGce;
  let pool: Catalog;

  beforeEach(async () => {
    scratch = new Scratch('gce-pool');
    fake = await gce.start();
    for (const machine of gce.machines) fake.instance(machine);
    pool = await openCloudPool(gce, scratch, fake.url);
  });
  afterEach(async () => {
    await pool.close();
    await fake[Symbol.asyncDispose]();
    scratch[Symbol.dispose]();
  });

  const publisher = () => pool.cluster?.publisher ?? assert.fail();
  const onlyVolume = () => [...fake.volumes.values()][0] ?? assert.fail();

  async function reopen(options: PoolOptions = {}): Promise<void> {
    await pool.close();
    pool = await openCloudPool(gce, scratch, fake.url, options);
  }

  test('a name that another made is left alone, and the next one is taken', async () => {
    const { id } = await pool.create(spec('a'));
    const { id: diskId } = onlyVolume();
    await pool.remove(id);
    await reopen();
    fake.setTags(fake.foreignVolume({}, 1, diskId).id, { owner: 'x' });
    await fake.settled();
    await pool.create(spec('a'));
    assert.equal(fake.volumes.size, 2);
    assert.deepEqual(fake.volumes.get(diskId)?.tags, { owner: 'x' });
    await pool.remove(id);
    assert.deepEqual([...fake.volumes.keys()], [diskId]);
  });

  test('a disk of a name that was deleted has another name', async () => {
    const { id } = await pool.create(spec('a'));
    const first = onlyVolume().id;
    await pool.remove(id);
    await pool.create(spec('a'));
    assert.notEqual(onlyVolume().id, first);
  });

  test('a device with the name of a volume and of another disk stays', async () => {
    const record = await pool.create(spec('a'));
    const { id: diskId } = onlyVolume();
    const devices = [
      { deviceName: diskId.slice(diskId.lastIndexOf('/') + 1), source: 'projects/x/zones/z/disks/other' },
    ];
    fake.foreignDevices.set(one, devices);
    await publisher().unpublish(record.id, one);
    assert.deepEqual(fake.foreignDevices.get(one), devices);
    await assert.rejects(publisher().publish(record, one), FailedPrecondition);
  });

  test('a disk that a person has attached under another name is not published: its node would take another one', async () => {
    const record = await pool.create(spec('a'));
    await fake.settled();
    fake.attachByHand(onlyVolume().id, one, 'data');
    await fake.settled();
    const words = { name: 'FailedPrecondition', message: /as device data, where its node does not find it/ };
    await assert.rejects(publisher().publish(record, one), words);
  });

  test('an attachment that is asked for and has not begun is not forgotten', async () => {
    const record = await pool.create(spec('a'));
    fake.attachDelayMs = 300;
    fake.loseNext('attachDisk');
    fake.refuseNext('get operations', 'forbidden');
    await assert.rejects(publisher().publish(record, one));
    await assert.rejects(publisher().unpublish(record.id, one), /is getting a disk, which may be .*try again/);
    await eventually(() => assert.equal(onlyVolume().attachment?.status, 'attached'));
    await publisher().unpublish(record.id, one);
    assert.equal(onlyVolume().attachment, undefined);
  });

  test('an attachment is found at once, although another disk of the machine is being detached', async () => {
    const record = await pool.create(spec('a'));
    const neighbour = await pool.create(spec('b'));
    for (const each of [record, neighbour]) await publisher().publish(each, one);
    const next = await openCloudPool(gce, scratch, fake.url, { pace: { settleMs: 60_000, waitMs: 5_000 } });
    fake.troubles = { ...fake.troubles, workMs: 300 };
    const ending = publisher().unpublish(neighbour.id, one);
    await eventually(() =>
      assert.ok([...fake.volumes.values()].some((each) => each.attachment?.status === 'detaching')),
    );
    await next.cluster?.publisher?.publish({ ...record, content: { type: 'block' } }, one);
    await ending;
    await next.close();
  });

  test('a machine that was made again under its name does not have the volume, and formats nothing', async () => {
    const record = await pool.create(spec('a'));
    assert.ok('firstUse' in (await publisher().publish(record, one)));
    assert.ok(publisher().isPublished(record.id, one));
    await fake.settled();
    fake.remake(one);
    await pool.condition(record.id);
    assert.ok(!publisher().isPublished(record.id, one));
    assert.deepEqual(await publisher().publish(record, one), {});
  });

  test('a machine that stops is named in Google’s words', async () => {
    const record = await pool.create(spec('a'));
    fake.refuseNext('attachDisk', 'resourceNotReady');
    await assert.rejects(publisher().publish(record, one), /resourceNotReady/);
  });

  test('a disk that a person has attached under another name is detached', async () => {
    const foreign = fake.foreignVolume();
    await fake.settled();
    fake.attachByHand(foreign.id, one, 'data');
    await fake.settled();
    await publisher().unpublishProvided(foreign.id, one);
    assert.equal(foreign.attachment, undefined);
  });

  test('an attachment that may be ending is not taken for one that stays', async () => {
    const record = await pool.create(spec('a'));
    await publisher().publish(record, one);
    fake.troubles = { ...fake.troubles, workMs: 400 };
    const ending = pool.cluster?.publisher?.unpublish(record.id, one);
    await eventually(() => assert.equal(onlyVolume().attachment?.status, 'detaching'));
    const next = await openCloudPool(gce, scratch, fake.url, { pace: { settleMs: 2_000 } });
    await assert.rejects(next.cluster?.publisher?.publish(record, other) ?? assert.fail(), Unavailable);
    await next.cluster?.publisher?.publish(record, one);
    assert.equal(onlyVolume().attachment?.status, 'attached');
    await ending;
    await next.close();
  });

  test('a list that lacks a zone is an error', async () => {
    await pool.create(spec('a'));
    fake.silentZones.add('eu-test-1b');
    await assert.rejects(openCloudPool(gce, scratch, fake.url), /lists no disks of zones\/eu-test-1b/);
    await assert.rejects(pool.create(spec('b')), Unavailable);
    fake.silentZones.clear();
    await pool.create(spec('b'));
    assert.equal(fake.volumes.size, 2);
  });

  test('lists have several pages', async () => {
    for (let number = 0; number < 25; number++) await pool.create(spec(`v${number}`));
    await reopen();
    assert.equal((await pool.list(undefined, undefined)).length, 25);
  });

  test('labels that are changed by others meanwhile are kept', async () => {
    const { id } = await pool.create(spec('a'));
    await fake.retag(onlyVolume().id, { owner: 'x' });
    fake.refuseNext('setLabels', 'conditionNotMet');
    await pool.grow(id, 2n * gibibyte);
    assert.equal(onlyVolume().tags['owner'], 'x');
  });

  test('a disk that was asked for in another zone is found there, and not made twice', async () => {
    await reopen({ pace: { settleMs: 300 } });
    fake.hideFromLists = true;
    fake.refuseNext('get operations', 'forbidden');
    await assert.rejects(pool.create(spec('a')), Unavailable);
    await assert.rejects(pool.create(spec('a', { zone: 'eu-test-1b' })), /has holdfast-.* for it already/);
    assert.equal(fake.volumes.size, 1);
  });

  test('a disk that a process before this one was making in another zone is found there, though lists show it late', async () => {
    fake.refuseNext('get operations', 'forbidden');
    await assert.rejects(pool.create(spec('a')), Unavailable);
    fake.hideFromLists = true;
    await reopen({ pace: { settleMs: 400 } });
    setTimeout(() => {
      fake.hideFromLists = false;
    }, 200);
    await assert.rejects(pool.create(spec('a', { zone: 'eu-test-1b' })), /has holdfast-.* for it already/);
    assert.equal(fake.volumes.size, 1);
  });

  test('a disk that is there under the name, and not listed, keeps its record', async () => {
    await pool.create(spec('a'));
    fake.hideFromLists = true;
    await reopen();
    await assert.rejects(pool.create(spec('a', { parameters: { labels: 'cost=7' } })), /from a try with other values/);
    assert.equal(fake.volumes.size, 1);
  });

  test('the first machine that a process before this one has noted is not overlooked', async () => {
    const record = await pool.create(spec('a'));
    assert.ok('firstUse' in (await publisher().publish(record, one)));
    await publisher().unpublish(record.id, one);
    const { id } = onlyVolume();
    fake.attachByHand(id, other, fake.serialOf(id));
    await fake.settled();
    fake.hideLabel(record.id, 'holdfast-first-node');
    await reopen({ pace: { settleMs: 400 } });
    setTimeout(() => fake.thaw(), 200);
    assert.deepEqual(await publisher().publish(record, other), {});
  });

  test('a disk that was made a moment ago, and is not shown again, is published', async () => {
    await reopen({ pace: { settleMs: 3_000 } });
    const record = await pool.create(spec('a'));
    fake.showNothing(record.id);
    const publishing = publisher().publish(record, one);
    await eventually(() => assert.equal(onlyVolume().attachment?.status, 'attached'), 5_000).finally(() => fake.thaw());
    await publishing;
    assert.equal(onlyVolume().attachment?.status, 'attached');
  });

  test('classes have zones by the key of the vendor’s driver', async () => {
    const topology = { requisite: [{ 'topology.gke.io/zone': 'eu-test-1b' }], preferred: [] };
    assert.equal(pool.cluster?.zoneFor?.(topology), 'eu-test-1b');
    const record = await pool.create(spec('a'));
    assert.deepEqual(pool.cluster?.topologyOf?.(record), {
      'topology.kubernetes.io/zone': 'eu-test-1a',
      'topology.gke.io/zone': 'eu-test-1a',
    });
  });

  test('labels of the class and of the pool are on the disk, and no more than Google takes', async () => {
    await pool.create(spec('a', { parameters: { labels: 'cost=7' } }));
    const { cost, team } = onlyVolume().tags;
    assert.deepEqual([cost, team], ['7', 'storage']);
    const labels = Array.from({ length: 60 }, (_, number) => `l${number}=x`).join(',');
    await assert.rejects(pool.create(spec('b', { parameters: { labels } })), (error) => {
      assert.ok(error instanceof InvalidArgument);
      assert.match(error.message, /would have [0-9]+ labels, and Google takes 64/);
      return true;
    });
    assert.equal(fake.volumes.size, 1);
    // One with room for its labels at its creation alone could be neither published nor deleted.
    let made: VolumeRecord | undefined;
    for (let count = 60; made === undefined; count--) {
      const some = Array.from({ length: count }, (_, number) => `l${number}=x`).join(',');
      made = await pool.create(spec('c', { parameters: { labels: some } })).catch((error): undefined => {
        if (!(error instanceof InvalidArgument)) throw error;
      });
    }
    const disk = [...fake.volumes.values()].at(-1) ?? assert.fail();
    assert.equal(Object.keys(disk.tags).length, 64 - 8 + 1);
  });

  test('a token that Google does not know any more is replaced', async () => {
    await pool.create(spec('a'));
    fake.tokens.clear();
    await pool.create(spec('b'));
    assert.equal(fake.volumes.size, 2);
  });

  test('an operation that fails at its end is an error in words', async () => {
    const record = await pool.create(spec('a'));
    fake.instance(one, { maxVolumes: 0 });
    fake.troubles = { ...fake.troubles, workMs: 20 };
    await assert.rejects(publisher().publish(record, one), ResourceExhausted);
  });

  test('a disk that is not attached is detached, whatever Google says to that', async () => {
    const record = await pool.create(spec('a'));
    fake.refuseNext('detachDisk', 'invalidUsage');
    await publisher().unpublish(record.id, one);
    await publisher().publish(record, one);
    for (const reason of ['invalidUsage', 'forbidden']) {
      fake.refuseNext('detachDisk', reason);
      await assert.rejects(publisher().unpublish(record.id, one), Unavailable);
    }
    await publisher().unpublish(record.id, one);
    assert.equal(onlyVolume().attachment, undefined);
  });

  test('labels of a disk that lost those of the pool are left as they are', async () => {
    const record = await pool.create(spec('a'));
    const show = fake.picture(record.id);
    const { id } = onlyVolume();
    fake.setTags(id, { owner: 'x' });
    await assert.rejects(pool.grow(record.id, 2n * gibibyte), NotFound);
    show();
    await assert.rejects(pool.grow(record.id, 2n * gibibyte));
    assert.deepEqual(onlyVolume().tags, { owner: 'x' });
  });

  test('a machine that was deleted holds nothing', async () => {
    const record = await pool.create(spec('a'));
    await publisher().unpublish(record.id, `projects/${fakeProject}/zones/eu-test-1a/instances/gone`);
    await publisher().unpublish(record.id, 'no machine of Google');
    await publisher().publish(record, one);
  });
});
