import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type * as wire from '../../src/csi/generated/types.ts';
import type { Draft } from '../../src/csi/handler.ts';
import { snapshotIdFor, volumeIdFor } from '../../src/volume/id.ts';
import { create, fails, makeSnapshot, makeVolume, nodeId, snapshotOf, TestDriver } from './controller-driver.ts';

const twoPools = { pools: { main: {}, other: {} } };

interface Made {
  readonly volumes: readonly [string, string];
  /** In order. */
  readonly snapshots: readonly string[];
}

/** Seven snapshots: four of a volume in one pool, three of one in the other. */
async function madeSnapshots(driver: TestDriver): Promise<Made> {
  const volumes = [
    await makeVolume(driver, create('a')),
    await makeVolume(driver, create('b', { parameters: { pool: 'other' } })),
  ] as const;
  const snapshots: string[] = [];
  for (let index = 0; index < 7; index++) {
    snapshots.push(await makeSnapshot(driver, volumes[index % 2] ?? '', `s${index}`));
  }
  return { volumes, snapshots: snapshots.sort() };
}

async function page(driver: TestDriver, request: Draft<wire.ListSnapshotsRequest>) {
  const { entries, next_token } = await driver.controller.ListSnapshots(request);
  return { ids: entries.map((entry) => snapshotOf(entry).snapshot_id), next_token };
}

describe('ListSnapshots', () => {
  test('LS01 LS06 N01 N02: pages go through all pools, whatever their size, without a gap or a repetition', async () => {
    await using driver = await TestDriver.start(twoPools);
    const { snapshots } = await madeSnapshots(driver);
    for (const max_entries of [1, 2, 3, 6, 7, 8, 0]) {
      const seen: string[] = [];
      let starting_token = '';
      do {
        const { ids, next_token } = await page(driver, { max_entries, starting_token });
        assert.ok(max_entries === 0 || ids.length <= max_entries);
        seen.push(...ids);
        starting_token = next_token;
      } while (starting_token !== '');
      assert.deepEqual(seen, snapshots);
    }
    const { next_token } = await page(driver, { max_entries: 2 });
    assert.deepEqual(await page(driver, { starting_token: next_token }), { ids: snapshots.slice(2), next_token: '' });
  });

  test('N02: a token stays good when the snapshot it came from is deleted', async () => {
    await using driver = await TestDriver.start(twoPools);
    const { snapshots } = await madeSnapshots(driver);
    const { next_token } = await page(driver, { max_entries: 3 });
    await driver.controller.DeleteSnapshot({ snapshot_id: snapshots[2] ?? '' });
    assert.deepEqual((await page(driver, { starting_token: next_token })).ids, snapshots.slice(3));
  });

  test('LS02 LS04: the filters, also in pages', async () => {
    await using driver = await TestDriver.start(twoPools);
    const { snapshots, volumes } = await madeSnapshots(driver);
    for (const snapshot_id of snapshots) assert.deepEqual((await page(driver, { snapshot_id })).ids, [snapshot_id]);
    const counts: number[] = [];
    for (const source_volume_id of volumes) {
      const { ids } = await page(driver, { source_volume_id });
      counts.push(ids.length);
      const first = await page(driver, { source_volume_id, max_entries: 2 });
      const rest = await page(driver, { source_volume_id, starting_token: first.next_token });
      assert.deepEqual([...first.ids, ...rest.ids], ids);
    }
    assert.deepEqual(counts, [4, 3]);
  });

  test('LS07: both filters together let through what meets both', async () => {
    await using driver = await TestDriver.start(twoPools);
    const { snapshots, volumes } = await madeSnapshots(driver);
    const { ids: ofFirst } = await page(driver, { source_volume_id: volumes[0] });
    for (const snapshot_id of snapshots) {
      const { ids } = await page(driver, { snapshot_id, source_volume_id: volumes[0] });
      assert.deepEqual(ids, ofFirst.includes(snapshot_id) ? [snapshot_id] : []);
    }
  });

  test('LS03 LS05: what nothing has, or can have, is an empty list', async () => {
    await using driver = await TestDriver.start(twoPools);
    await madeSnapshots(driver);
    for (const filter of [
      { snapshot_id: snapshotIdFor(nodeId, 'no such') },
      { snapshot_id: '../../x' },
      { source_volume_id: volumeIdFor(nodeId, 'main', 'no such') },
      { source_volume_id: '../../x' },
    ]) {
      assert.deepEqual(await page(driver, filter), { ids: [], next_token: '' });
    }
  });

  test('LS07: a token that this listing did not give is ABORTED; a negative max_entries INVALID_ARGUMENT', async () => {
    await using driver = await TestDriver.start(twoPools);
    const { volumes } = await madeSnapshots(driver);
    for (const starting_token of ['x', '0', volumes[0], 'snap-', '../snap']) {
      await fails(driver.controller.ListSnapshots({ starting_token }), 'ABORTED');
      await fails(driver.controller.ListSnapshots({ starting_token, snapshot_id: 'x' }), 'ABORTED');
    }
    await fails(driver.controller.ListSnapshots({ max_entries: -1 }), 'INVALID_ARGUMENT');
  });

  test('LS08 GR13: members of groups are in it, with their group', async () => {
    await using driver = await TestDriver.start(twoPools);
    const { volumes } = await madeSnapshots(driver);
    const { group_snapshot } = await driver.client.groupController.CreateVolumeGroupSnapshot({
      name: 'g',
      source_volume_ids: [volumes[0]],
    });
    const { entries } = await driver.controller.ListSnapshots({ source_volume_id: volumes[0] });
    const members = entries.filter((entry) => snapshotOf(entry).group_snapshot_id !== '');
    assert.deepEqual(
      members.map((entry) => snapshotOf(entry)),
      group_snapshot?.snapshots,
    );
  });

  test('LV04: UNAVAILABLE while a pool is not open, for its snapshots would seem to be gone', async () => {
    await using driver = await TestDriver.start({ ...twoPools, failing: { other: 'its disk is gone' } });
    await fails(driver.controller.ListSnapshots({}), 'UNAVAILABLE', /other/);
  });
});
