import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { adminService } from '../../src/admin/service.ts';
import { AlreadyExists, Unavailable } from '../../src/volume/errors.ts';
import { parseVolumeId } from '../../src/volume/id.ts';
import { eventually } from '../support/eventually.ts';
import { create, fails, gate, makeSnapshot, makeVolume, snapshotOf, TestDriver } from './controller-driver.ts';

/*
 * Snapshots and groups have one name on a node, whatever pool they are in, and so has a volume in the eyes of who asks
 * for it. A pool that could not be opened is passed over where something is made: one broken disk does not stop that on
 * the others.
 */

const call = { note: () => undefined };
const pools = { main: { undeleteSeconds: 3600 }, other: { undeleteSeconds: 3600 } };
const inOther = { parameters: { pool: 'other' } };

describe('a deleted volume whose name lives in another pool by now', () => {
  test('is not restored beside it, and is when that one is gone', async () => {
    await using driver = await TestDriver.start({ pools });
    const admin = adminService({ nodeId: 'node', ...driver });
    const id = parseVolumeId(await makeVolume(driver, create('a')));
    assert.ok(id !== undefined);
    await driver.controller.DeleteVolume({ volume_id: id });
    const newer = await makeVolume(driver, create('a', inOther));
    await assert.rejects(admin.restore({ id }, call), (error) => {
      assert.ok(error instanceof AlreadyExists);
      assert.match(error.message, new RegExp(`${newer}.*pool other`));
      return true;
    });
    await driver.controller.DeleteVolume({ volume_id: newer });
    assert.equal((await admin.restore({ id }, call)).pool, 'main');
    await assert.rejects(admin.restore({ id }, call), AlreadyExists);
  });

  test('nor while a pool that may have the name is not open', async () => {
    const before = await TestDriver.start({ pools });
    const id = parseVolumeId(await makeVolume(before, create('a')));
    assert.ok(id !== undefined);
    await before.controller.DeleteVolume({ volume_id: id });
    const scratch = await before.stop();
    await using driver = await TestDriver.start({ pools, failing: { other: 'its disk is gone' } }, scratch);
    const restored = adminService({ nodeId: 'node', ...driver }).restore({ id }, call);
    await assert.rejects(restored, (error) => error instanceof Unavailable && /pool other/.test(error.message));
  });
});

describe('a snapshot that was made while the pool of an older one with its name could not be opened', () => {
  test('is neither deleted nor used for the other: the pools of both are named', async () => {
    const before = await TestDriver.start({ pools });
    const older = await makeVolume(before, create('older', inOther));
    const snapshot_id = await makeSnapshot(before, older, 's');
    const source = await makeVolume(before, create('newer'));
    await fails(before.controller.CreateSnapshot({ source_volume_id: source, name: 's' }), 'ALREADY_EXISTS');
    const between = await TestDriver.start({ pools, failing: { other: 'its disk is gone' } }, await before.stop());
    assert.equal(await makeSnapshot(between, source, 's'), snapshot_id);
    await using driver = await TestDriver.start({ pools }, await between.stop());
    const both = /pools main and other/;
    await fails(driver.controller.DeleteSnapshot({ snapshot_id }), 'FAILED_PRECONDITION', both);
    await fails(driver.controller.GetSnapshot({ snapshot_id }), 'FAILED_PRECONDITION', both);
    for (const source_volume_id of [older, source]) {
      await fails(driver.controller.CreateSnapshot({ source_volume_id, name: 's' }), 'FAILED_PRECONDITION', both);
    }
    const { entries } = await driver.controller.ListSnapshots({});
    assert.equal(entries.length, 2);
  });
});

describe('while a pool is being opened', () => {
  test('no snapshot and no group is made that it may have already', async () => {
    const before = await TestDriver.start({ pools });
    const source = await makeVolume(before, create('a'));
    const { opened, open } = gate();
    const scratch = await before.stop();
    await using driver = await TestDriver.start({ pools, slow: { other: opened } }, scratch);
    try {
      await isOpen(driver, 'main');
      const snapshot = driver.controller.CreateSnapshot({ source_volume_id: source, name: 's' });
      await fails(snapshot, 'UNAVAILABLE', /other/);
      const group = driver.client.groupController.CreateVolumeGroupSnapshot({ name: 'g', source_volume_ids: [source] });
      await fails(group, 'UNAVAILABLE', /other/);
    } finally {
      open();
    }
    await isOpen(driver, 'other');
    const made = await driver.controller.CreateSnapshot({ source_volume_id: source, name: 's' });
    assert.equal(snapshotOf(made).source_volume_id, source);
  });
});

function isOpen({ pools }: TestDriver, name: string): Promise<void> {
  return eventually(() => assert.equal(pools.statuses().find((pool) => pool.name === name)?.state, 'open'));
}
