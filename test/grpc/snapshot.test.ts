import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { parseSnapshotId, parseVolumeId, snapshotIdFor, volumeIdFor } from '../../src/volume/id.ts';
import { startNamespace } from '../support/child.ts';
import { CallError } from '../support/client.ts';
import { mounted, withMounted } from '../support/mounted-volume.ts';
import {
  block,
  create,
  fails,
  fromSnapshot,
  gate,
  makeSnapshot,
  makeVolume,
  mebibyte,
  mount,
  nodeId,
  snapshotOf,
  TestDriver,
} from './controller-driver.ts';

const sharing = { locations: 'file' } as const;
const noSuchVolume = volumeIdFor(nodeId, 'main', 'no such');
const noSuchSnapshot = snapshotIdFor(nodeId, 'no such');
const malformed = ['x', '../../etc/passwd', 'snap-../../../../../../../../../..', `${noSuchSnapshot}/../x`, ' '];

async function snapshotIds(driver: TestDriver): Promise<string[]> {
  const { entries } = await driver.controller.ListSnapshots({});
  return entries.map((entry) => snapshotOf(entry).snapshot_id);
}

/** A volume that was written to, and is no longer mounted here. */
async function inNamespaceOnly(driver: TestDriver, volumeId: string): Promise<AsyncDisposable> {
  const id = parseVolumeId(volumeId);
  assert.ok(id);
  await using inUse = await mounted(driver.pool(), id, driver.scratch);
  const other = await startNamespace(inUse.path);
  writeFileSync(`${inUse.path}/file`, 'written last');
  return other;
}

describe('CreateSnapshot', () => {
  test('CS03 CS04 CS06 CS08 CS12: complete and ready at once; the replay is the same to the nanosecond', async () => {
    await using driver = await TestDriver.start(sharing);
    const source_volume_id = await makeVolume(driver, create('a'));
    const before = Date.now();
    const made = await driver.controller.CreateSnapshot({ source_volume_id, name: 's' });
    const { creation_time, ...rest } = snapshotOf(made);
    assert.deepEqual(rest, {
      size_bytes: 16n * mebibyte,
      snapshot_id: snapshotIdFor(nodeId, 's'),
      source_volume_id,
      ready_to_use: true,
      group_snapshot_id: '',
    });
    const createdMs = Number(creation_time?.seconds) * 1000 + Number(creation_time?.nanos) / 1e6;
    assert.ok(createdMs >= before && createdMs <= Date.now());
    assert.deepEqual(await driver.controller.CreateSnapshot({ source_volume_id, name: 's' }), made);
    assert.deepEqual(await snapshotIds(driver), [rest.snapshot_id]);
    const [listed] = (await driver.controller.ListSnapshots({})).entries;
    assert.deepEqual(listed, { snapshot: made.snapshot });
  });

  test('CS04 DS07: the same again after the source is gone, and after a restart', async () => {
    await using driver = await TestDriver.start(sharing);
    const source_volume_id = await makeVolume(driver, create('a'));
    const made = await driver.controller.CreateSnapshot({ source_volume_id, name: 's' });
    await driver.controller.DeleteVolume({ volume_id: source_volume_id });
    assert.deepEqual(await driver.controller.CreateSnapshot({ source_volume_id, name: 's' }), made);
    await using again = await TestDriver.start(sharing, await driver.stop());
    assert.deepEqual(await again.controller.CreateSnapshot({ source_volume_id, name: 's' }), made);
    assert.deepEqual(await again.controller.GetSnapshot({ snapshot_id: snapshotIdFor(nodeId, 's') }), made);
  });

  test('CS05: the name of a snapshot of another volume is taken, in whatever pool that is', async () => {
    await using driver = await TestDriver.start({ pools: { main: {}, other: {} } });
    const first = await makeVolume(driver, create('a'));
    const second = await makeVolume(driver, create('b', { parameters: { pool: 'other' } }));
    await makeSnapshot(driver, first, 's');
    for (const source_volume_id of [second, noSuchVolume]) {
      await fails(
        driver.controller.CreateSnapshot({ source_volume_id, name: 's' }),
        'ALREADY_EXISTS',
        new RegExp(first),
      );
    }
    assert.equal((await snapshotIds(driver)).length, 1);
  });

  test('CS07: a source that does not exist, or cannot, is NOT_FOUND', async () => {
    await using driver = await TestDriver.start();
    for (const source_volume_id of [noSuchVolume, ...malformed]) {
      await fails(driver.controller.CreateSnapshot({ source_volume_id, name: 's' }), 'NOT_FOUND');
    }
    assert.deepEqual(await snapshotIds(driver), []);
  });

  test('CS12 L08 X03: unknown parameters are refused, those of Kubernetes and any name kept, secrets nowhere', async () => {
    await using driver = await TestDriver.start();
    const source_volume_id = await makeVolume(driver, create('a'));
    const request = { source_volume_id, name: 's', parameters: { pool: 'main' } };
    await fails(driver.controller.CreateSnapshot(request), 'INVALID_ARGUMENT', /"pool"; there are none/);
    const parameters = { 'csi.storage.k8s.io/volumesnapshot/name': 'nightly' };
    for (const name of ['../../x', 'a/b', 'line\nfeed', '🗻'.repeat(32)]) {
      const secrets = { key: 'hunter2' };
      const made = await driver.controller.CreateSnapshot({ source_volume_id, name, parameters, secrets });
      const id = parseSnapshotId(snapshotOf(made).snapshot_id);
      const record = id && (await driver.pool().findSnapshot(id));
      assert.equal(record?.name, name);
      assert.deepEqual(record?.parameters, parameters);
    }
    assert.ok(!driver.log.join('').includes('hunter2'));
    const found = spawnSync('grep', ['-rl', 'hunter2', driver.scratch.join('main')], { encoding: 'utf8' });
    assert.equal(found.stdout, '');
  });

  test('K02: 50 equal calls at once cut one snapshot', async () => {
    await using driver = await TestDriver.start(sharing);
    const source_volume_id = await makeVolume(driver, create('a'));
    const calls = Array.from({ length: 50 }, () => driver.controller.CreateSnapshot({ source_volume_id, name: 's' }));
    const [first, ...others] = await Promise.all(calls);
    for (const other of others) assert.deepEqual(other, first);
    assert.equal((await snapshotIds(driver)).length, 1);
    assert.equal(readdirSync(driver.scratch.join('data/pools/main/snapshots')).length, 1);
  });

  test('K02 CS11: of two unequal calls with one name one wins, and the other hears why not', async () => {
    await using driver = await TestDriver.start(sharing);
    const sources = [await makeVolume(driver, create('a')), await makeVolume(driver, create('b'))];
    for (let round = 0; round < 10; round++) {
      const name = `s${round}`;
      const answers = await Promise.allSettled(
        sources.map((source_volume_id) => driver.controller.CreateSnapshot({ source_volume_id, name })),
      );
      const lost = answers.flatMap((answer) => (answer.status === 'rejected' ? [answer.reason] : []));
      assert.equal(lost.length, 1);
      assert.ok(lost[0] instanceof CallError && ['ALREADY_EXISTS', 'ABORTED'].includes(lost[0].code), `${lost[0]}`);
      assert.equal((await snapshotIds(driver)).length, round + 1);
    }
  });

  test('different snapshots of one volume at once, none lost', async () => {
    await using driver = await TestDriver.start({ ...sharing, patienceMs: 60_000 });
    const source = await makeVolume(driver, create('a'));
    const names = Array.from({ length: 10 }, () => randomUUID());
    const ids = await Promise.all(names.map((name) => makeSnapshot(driver, source, name)));
    assert.deepEqual(await snapshotIds(driver), ids.sort());
  });

  test('CS11 K04: ABORTED while a call is at work on the snapshot, or on its source', async () => {
    await using driver = await TestDriver.start();
    const source_volume_id = await makeVolume(driver, create('a'));
    for (const object of [snapshotIdFor(nodeId, 's'), source_volume_id]) {
      const work = gate();
      const other = driver.objects.run(object, 'SomeCall', '', () => work.opened);
      await fails(driver.controller.CreateSnapshot({ source_volume_id, name: 's' }), 'ABORTED', /SomeCall/);
      work.open();
      await other;
    }
    assert.deepEqual(await snapshotIds(driver), []);
    await makeSnapshot(driver, source_volume_id, 's');
  });

  test('CS09 CS10: without room it is RESOURCE_EXHAUSTED, nothing is left, and the name can be used again', async () => {
    await using driver = await TestDriver.start(sharing);
    const { available_capacity } = await driver.controller.GetCapacity({});
    const half = { required_bytes: ((available_capacity * 6n) / 10n / 4096n) * 4096n };
    const thick = { capacity_range: half, parameters: { provisioning: 'thick' } };
    const source_volume_id = await makeVolume(driver, create('a', thick));
    await fails(driver.controller.CreateSnapshot({ source_volume_id, name: 's' }), 'RESOURCE_EXHAUSTED');
    assert.deepEqual(await snapshotIds(driver), []);
    for (const directory of ['snapshots', 'tmp', 'trash']) {
      assert.deepEqual(readdirSync(driver.scratch.join('data/pools/main', directory)), []);
    }
    const small = await makeVolume(driver, create('b'));
    assert.equal(await makeSnapshot(driver, small, 's'), snapshotIdFor(nodeId, 's'));
  });

  test('CS10 T04: a filesystem that lives on in another mount namespace only is not cloned: it cannot be frozen', async () => {
    await using driver = await TestDriver.start(sharing);
    const id = await makeVolume(driver, create('a', { volume_capabilities: [mount('ext4')] }));
    const other = await inNamespaceOnly(driver, id);
    try {
      await fails(
        driver.controller.CreateSnapshot({ source_volume_id: id, name: 's' }),
        'FAILED_PRECONDITION',
        /is in use through \/dev\/loop/,
      );
      assert.deepEqual(await snapshotIds(driver), []);
    } finally {
      await other[Symbol.asyncDispose]();
    }
    const snapshot = await makeSnapshot(driver, id, 's');
    const copy = await makeVolume(
      driver,
      create('b', { volume_content_source: fromSnapshot(snapshot), volume_capabilities: [mount('ext4')] }),
    );
    const copyId = parseVolumeId(copy);
    assert.ok(copyId);
    await withMounted(driver.pool(), copyId, driver.scratch, (path) => {
      assert.equal(readFileSync(`${path}/file`, 'utf8'), 'written last');
    });
  });
});

describe('DeleteSnapshot', () => {
  test('DS02 DS03: what is deleted is gone, again is fine, and so are ids that nothing has or can have', async () => {
    await using driver = await TestDriver.start(sharing);
    const source = await makeVolume(driver, create('a'));
    const snapshot_id = await makeSnapshot(driver, source, 's');
    for (const id of [snapshot_id, snapshot_id, noSuchSnapshot, ...malformed]) {
      await driver.controller.DeleteSnapshot({ snapshot_id: id });
    }
    assert.deepEqual(await snapshotIds(driver), []);
    assert.deepEqual(readdirSync(driver.scratch.join('data/pools/main/snapshots')), []);
    // The name is free: this is another snapshot.
    await makeSnapshot(driver, await makeVolume(driver, create('b')), 's');
  });

  test('DS04: a member of a group is INVALID_ARGUMENT, and stays', async () => {
    await using driver = await TestDriver.start();
    const source_volume_ids = [await makeVolume(driver, create('a')), await makeVolume(driver, create('b'))];
    const { group_snapshot } = await driver.client.groupController.CreateVolumeGroupSnapshot({
      name: 'g',
      source_volume_ids,
    });
    const snapshot_id = group_snapshot?.snapshots[0]?.snapshot_id ?? '';
    await fails(
      driver.controller.DeleteSnapshot({ snapshot_id }),
      'INVALID_ARGUMENT',
      new RegExp(`${group_snapshot?.group_snapshot_id}.*DeleteVolumeGroupSnapshot`),
    );
    assert.equal((await snapshotIds(driver)).length, 2);
  });

  test('DS05 DS06: ABORTED while the snapshot is made, or a volume is made from it; untouched', async () => {
    await using driver = await TestDriver.start();
    const source = await makeVolume(driver, create('a'));
    const snapshot_id = await makeSnapshot(driver, source, 's');
    for (const isShared of [false, true]) {
      const work = gate();
      const other = driver.objects.claim([{ object: snapshot_id, isShared }], 'SomeCall', () => work.opened);
      await fails(driver.controller.DeleteSnapshot({ snapshot_id }), 'ABORTED', /SomeCall/);
      work.open();
      await other;
    }
    assert.deepEqual(await snapshotIds(driver), [snapshot_id]);
  });

  test('DS05 DS07 DV07: source, snapshot and restored volume go in any order, and what stays is whole', async () => {
    await using driver = await TestDriver.start(sharing);
    const source = await makeVolume(driver, create('a'));
    const snapshot = await makeSnapshot(driver, source, 's');
    const restored = await makeVolume(driver, create('r', { volume_content_source: fromSnapshot(snapshot) }));
    await driver.controller.DeleteVolume({ volume_id: source });
    assert.deepEqual(await snapshotIds(driver), [snapshot]);
    const second = await makeVolume(driver, create('r2', { volume_content_source: fromSnapshot(snapshot) }));
    await driver.controller.DeleteSnapshot({ snapshot_id: snapshot });
    for (const volume_id of [restored, second]) {
      const { status } = await driver.controller.ControllerGetVolume({ volume_id });
      assert.equal(status?.volume_condition?.abnormal, false);
    }
  });

  test('DV08: while a pool cannot be opened, an unknown snapshot might be in it', async () => {
    await using driver = await TestDriver.start({ pools: { main: {}, sick: {} }, failing: { sick: 'no disk' } });
    await fails(driver.controller.DeleteSnapshot({ snapshot_id: noSuchSnapshot }), 'UNAVAILABLE');
    const source = await makeVolume(driver, create('a'));
    const snapshot_id = await makeSnapshot(driver, source, 's');
    await driver.controller.DeleteSnapshot({ snapshot_id });
  });
});

describe('GetSnapshot', () => {
  test('GS01 GS04: the snapshot as it was made; NOT_FOUND for unknown, INVALID_ARGUMENT for missing ids', async () => {
    await using driver = await TestDriver.start();
    const source_volume_id = await makeVolume(driver, create('a', { volume_capabilities: [block()] }));
    const made = await driver.controller.CreateSnapshot({ source_volume_id, name: 's' });
    const { snapshot_id } = snapshotOf(made);
    assert.deepEqual(await driver.controller.GetSnapshot({ snapshot_id }), made);
    for (const id of [noSuchSnapshot, ...malformed]) {
      await fails(driver.controller.GetSnapshot({ snapshot_id: id }), 'NOT_FOUND');
    }
    await fails(driver.controller.GetSnapshot({}), 'INVALID_ARGUMENT', /snapshot_id/);
  });

  test('GS05: a member of a group, with its group', async () => {
    await using driver = await TestDriver.start();
    const source_volume_ids = [await makeVolume(driver, create('a'))];
    const { group_snapshot } = await driver.client.groupController.CreateVolumeGroupSnapshot({
      name: 'g',
      source_volume_ids,
    });
    const member = group_snapshot?.snapshots[0];
    const { snapshot } = await driver.controller.GetSnapshot({ snapshot_id: member?.snapshot_id ?? '' });
    assert.deepEqual(snapshot, member);
    assert.equal(snapshot?.group_snapshot_id, group_snapshot?.group_snapshot_id);
  });
});
