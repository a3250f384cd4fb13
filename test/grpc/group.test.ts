import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { describe, test } from 'node:test';
import type * as wire from '../../src/csi/generated/types.ts';
import type { Draft } from '../../src/csi/handler.ts';
import { groupIdFor, parseVolumeId, snapshotIdFor, volumeIdFor } from '../../src/volume/id.ts';
import { CallError } from '../support/client.ts';
import { mounted } from '../support/mounted-volume.ts';
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
import { workload, write } from './workload.ts';

const sharing = { locations: 'file' } as const;
const noSuchVolume = volumeIdFor(nodeId, 'main', 'no such');
const noSuchGroup = groupIdFor(nodeId, 'no such');
const malformed = ['x', '../../etc/passwd', `${noSuchGroup}/../x`, noSuchVolume];

async function makeVolumes(driver: TestDriver, names: readonly string[]): Promise<string[]> {
  const ids = [];
  for (const name of names) ids.push(await makeVolume(driver, create(name)));
  return ids;
}

/** A group of that name, as it was answered. */
async function makeGroup(
  driver: TestDriver,
  source_volume_ids: readonly string[],
  changes: Draft<wire.CreateVolumeGroupSnapshotRequest> = {},
): Promise<wire.VolumeGroupSnapshot> {
  const { groupController } = driver.client;
  const { group_snapshot } = await groupController.CreateVolumeGroupSnapshot({
    name: 'g',
    source_volume_ids,
    ...changes,
  });
  if (group_snapshot === null) throw new Error('the response has no group');
  return group_snapshot;
}

const memberIds = (group: wire.VolumeGroupSnapshot) => group.snapshots.map(({ snapshot_id }) => snapshot_id);

function isGroup(value: object | string): value is wire.VolumeGroupSnapshot {
  return typeof value === 'object' && 'group_snapshot_id' in value;
}

async function listedIds(driver: TestDriver): Promise<string[]> {
  const { entries } = await driver.controller.ListSnapshots({});
  return entries.map((entry) => snapshotOf(entry).snapshot_id);
}

describe('GroupControllerGetCapabilities', () => {
  test('GR01 G09: it makes, deletes and gets groups, and GetSnapshot is there too', async () => {
    await using driver = await TestDriver.start();
    const { capabilities } = await driver.client.groupController.GroupControllerGetCapabilities({});
    assert.deepEqual(
      capabilities.map(({ rpc }) => rpc?.type),
      ['CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT'],
    );
    const controller = await driver.controller.ControllerGetCapabilities({});
    assert.ok(controller.capabilities.some(({ rpc }) => rpc?.type === 'GET_SNAPSHOT'));
  });
});

describe('CreateVolumeGroupSnapshot', () => {
  test('GR11 GR12 GR22: complete, ready, all of one instant; Get answers the same, also after a restart', async () => {
    await using driver = await TestDriver.start(sharing);
    const sources = await makeVolumes(driver, ['a', 'b', 'c']);
    const group = await makeGroup(driver, sources);
    assert.equal(group.group_snapshot_id, groupIdFor(nodeId, 'g'));
    assert.equal(group.ready_to_use, true);
    assert.deepEqual(group.snapshots.map(({ source_volume_id }) => source_volume_id).sort(), sources.sort());
    for (const member of group.snapshots) {
      assert.equal(member.group_snapshot_id, group.group_snapshot_id);
      assert.equal(member.size_bytes, 16n * mebibyte);
      assert.equal(member.ready_to_use, true);
      assert.deepEqual(member.creation_time, group.creation_time);
    }
    const request = { group_snapshot_id: group.group_snapshot_id, snapshot_ids: memberIds(group).reverse() };
    await using again = await TestDriver.start(sharing, await driver.stop());
    const { group_snapshot } = await again.client.groupController.GetVolumeGroupSnapshot(request);
    assert.deepEqual(group_snapshot, group);
  });

  test('GR13: each member makes a volume, and is visible on its own', async () => {
    await using driver = await TestDriver.start();
    const group = await makeGroup(driver, await makeVolumes(driver, ['a', 'b']));
    assert.deepEqual(await listedIds(driver), memberIds(group).sort());
    for (const member of group.snapshots) {
      const { snapshot_id } = member;
      assert.deepEqual((await driver.controller.GetSnapshot({ snapshot_id })).snapshot, member);
      await makeVolume(driver, create(`of ${snapshot_id}`, { volume_content_source: fromSnapshot(snapshot_id) }));
    }
  });

  test('GR05: the same ids in any order are the same group, also once the sources are gone', async () => {
    await using driver = await TestDriver.start(sharing);
    const sources = await makeVolumes(driver, ['a', 'b', 'c']);
    const group = await makeGroup(driver, sources);
    const parameters = { 'csi.storage.k8s.io/volumegroupsnapshot/name': 'nightly' };
    assert.deepEqual(await makeGroup(driver, sources.toReversed(), { parameters }), group);
    for (const volume_id of sources) await driver.controller.DeleteVolume({ volume_id });
    assert.deepEqual(await makeGroup(driver, sources), group);
    assert.equal((await listedIds(driver)).length, 3);
  });

  test('GR06: other ids under the name are ALREADY_EXISTS', async () => {
    await using driver = await TestDriver.start();
    const [a = '', b = '', c = ''] = await makeVolumes(driver, ['a', 'b', 'c']);
    await makeGroup(driver, [a, b]);
    for (const others of [[a], [a, c], [a, b, c], [noSuchVolume]]) {
      await fails(makeGroup(driver, others), 'ALREADY_EXISTS', /of volumes vol-/);
    }
    assert.equal((await listedIds(driver)).length, 2);
  });

  const refused: Record<string, Draft<wire.CreateVolumeGroupSnapshotRequest>> = {
    'GR02: no name': { name: '' },
    'L08: a name with a control character': { name: 'a\u0001' },
    'GR03: no ids': { source_volume_ids: [] },
    'GR03: an empty id': { source_volume_ids: [volumeIdFor(nodeId, 'main', 'a'), ''] },
    'GR03: an id twice': {
      source_volume_ids: [volumeIdFor(nodeId, 'main', 'a'), volumeIdFor(nodeId, 'main', 'a')],
    },
    'GR04: an unknown parameter': { parameters: { pool: 'main' } },
  };
  for (const [what, changes] of Object.entries(refused)) {
    test(`${what} is INVALID_ARGUMENT, and nothing is cut`, async () => {
      await using driver = await TestDriver.start();
      const sources = await makeVolumes(driver, ['a']);
      await fails(makeGroup(driver, sources, changes), 'INVALID_ARGUMENT');
      assert.deepEqual(await listedIds(driver), []);
    });
  }

  test('GR04 GR10: one source that does not exist, or cannot, is NOT_FOUND, and nothing is cut of the others', async () => {
    await using driver = await TestDriver.start();
    const sources = await makeVolumes(driver, ['a', 'b']);
    for (const other of [noSuchVolume, 'x', '../../etc']) {
      await fails(makeGroup(driver, [...sources, other]), 'NOT_FOUND');
    }
    assert.deepEqual(await listedIds(driver), []);
    await makeGroup(driver, sources);
  });

  test('GR08: volumes of several pools are FAILED_PRECONDITION that says where each is', async () => {
    await using driver = await TestDriver.start({ pools: { main: {}, other: {} } });
    const a = await makeVolume(driver, create('a'));
    const b = await makeVolume(driver, create('b', { parameters: { pool: 'other' } }));
    const reason = new RegExp(`${a} is in main.*${b} is in other|${b} is in other.*${a} is in main`);
    await fails(makeGroup(driver, [a, b]), 'FAILED_PRECONDITION', reason);
    assert.deepEqual(await listedIds(driver), []);
  });

  test('GR08: raw block volumes in use have nothing to freeze: FAILED_PRECONDITION with the remedy', async () => {
    await using driver = await TestDriver.start(sharing);
    const idle = await makeVolume(driver, create('idle'));
    await using source = await workload(driver, 'raw', block());
    await fails(makeGroup(driver, [source.id, idle]), 'FAILED_PRECONDITION', /Snapshot it alone, or stop its pod/);
    assert.deepEqual(await listedIds(driver), []);
  });

  test('GR09: without room it is RESOURCE_EXHAUSTED, and nothing is cut', async () => {
    await using driver = await TestDriver.start(sharing);
    const { available_capacity } = await driver.controller.GetCapacity({});
    const capacity_range = { required_bytes: ((available_capacity * 6n) / 10n / 4096n) * 4096n };
    const thick = { capacity_range, parameters: { provisioning: 'thick' } };
    const sources = [await makeVolume(driver, create('large', thick)), ...(await makeVolumes(driver, ['small']))];
    await fails(makeGroup(driver, sources), 'RESOURCE_EXHAUSTED');
    assert.deepEqual(await listedIds(driver), []);
  });

  test('GR07: one that a backup has frozen already is taken with the others, and stays frozen', async () => {
    await using driver = await TestDriver.start(sharing);
    const ext4 = { volume_capabilities: [mount('ext4')], capacity_range: { required_bytes: 32n * mebibyte } };
    const open = [];
    for (const name of ['a', 'b', 'c']) {
      const id = parseVolumeId(await makeVolume(driver, create(name, ext4)));
      assert.ok(id);
      open.push({ id, ...(await mounted(driver.pool(), id, driver.scratch)) });
    }
    const last = open.at(-1);
    assert.ok(last);
    execFileSync('fsfreeze', ['--freeze', last.path]);
    const ids = open.map(({ id }) => id);
    await makeGroup(driver, ids);
    // Fails if it is not frozen any more.
    execFileSync('fsfreeze', ['--unfreeze', last.path]);
    for (const { path } of open) write(`${path}/file`, Buffer.from('writable'));
    for (const volume of open) await volume[Symbol.asyncDispose]();
  });

  test('K02: 50 equal calls at once cut one group; of two unequal ones, one wins', async () => {
    await using driver = await TestDriver.start(sharing);
    const sources = await makeVolumes(driver, ['a', 'b']);
    const groups = await Promise.all(
      Array.from({ length: 50 }, (_, call) => makeGroup(driver, call % 2 === 0 ? sources : sources.toReversed())),
    );
    for (const group of groups) assert.deepEqual(group, groups[0]);
    for (let round = 0; round < 10; round++) {
      const name = `g${round}`;
      const answers = await Promise.allSettled([
        makeGroup(driver, sources, { name }),
        makeGroup(driver, sources.slice(1), { name }),
      ]);
      const lost = answers.flatMap((answer) => (answer.status === 'rejected' ? [answer.reason] : []));
      assert.equal(lost.length, 1);
      assert.ok(lost[0] instanceof CallError && ['ALREADY_EXISTS', 'ABORTED'].includes(lost[0].code), `${lost[0]}`);
    }
  });

  test('K04: groups that overlap, snapshots and deletions of the same volumes at once: no half state', async () => {
    await using driver = await TestDriver.start(sharing);
    for (let round = 0; round < 5; round++) {
      const sources = await makeVolumes(driver, ['a', 'b', 'c']);
      const answers = await Promise.allSettled([
        makeGroup(driver, sources, { name: 'one' }),
        makeGroup(driver, sources.toReversed().slice(1), { name: 'two' }),
        makeSnapshot(driver, sources[1] ?? '', 's'),
        driver.controller.DeleteVolume({ volume_id: sources[2] ?? '' }),
        makeGroup(driver, sources.slice(1), { name: 'three' }),
      ]);
      const groups: wire.VolumeGroupSnapshot[] = [];
      for (const answer of answers) {
        if (answer.status === 'fulfilled') {
          const { value } = answer;
          if (isGroup(value)) groups.push(value);
          continue;
        }
        const { reason } = answer;
        assert.ok(reason instanceof CallError && ['ABORTED', 'NOT_FOUND'].includes(reason.code), `${reason}`);
      }
      const isCut = answers[2]?.status === 'fulfilled';
      const expected = [...groups.flatMap(memberIds), ...(isCut ? [snapshotIdFor(nodeId, 's')] : [])];
      assert.deepEqual(await listedIds(driver), expected.sort());
      for (const { group_snapshot_id, snapshots } of groups) {
        const snapshot_ids = snapshots.map(({ snapshot_id }) => snapshot_id);
        await driver.client.groupController.DeleteVolumeGroupSnapshot({ group_snapshot_id, snapshot_ids });
      }
      await driver.controller.DeleteSnapshot({ snapshot_id: snapshotIdFor(nodeId, 's') });
      for (const volume_id of sources) await driver.controller.DeleteVolume({ volume_id });
    }
    assert.deepEqual(await listedIds(driver), []);
  });
});

describe('DeleteVolumeGroupSnapshot', () => {
  test('GR15 GR17: the group goes with all its members, again is fine, and so are ids that nothing has', async () => {
    await using driver = await TestDriver.start(sharing);
    const { groupController } = driver.client;
    const group = await makeGroup(driver, await makeVolumes(driver, ['a', 'b']));
    const { group_snapshot_id } = group;
    const snapshot_ids = memberIds(group).reverse();
    for (const _try of [1, 2]) await groupController.DeleteVolumeGroupSnapshot({ group_snapshot_id, snapshot_ids });
    for (const id of [noSuchGroup, ...malformed]) {
      await groupController.DeleteVolumeGroupSnapshot({ group_snapshot_id: id });
    }
    assert.deepEqual(await listedIds(driver), []);
    await fails(groupController.GetVolumeGroupSnapshot({ group_snapshot_id, snapshot_ids }), 'NOT_FOUND');
    assert.deepEqual(readdirSync(driver.scratch.join('data/pools/main/snapshots')), []);
    assert.deepEqual(readdirSync(driver.scratch.join('data/pools/main/groups')), []);
  });

  test('GR16 GR21: other snapshot_ids than its members are INVALID_ARGUMENT, and nothing goes', async () => {
    await using driver = await TestDriver.start(sharing);
    const { groupController } = driver.client;
    const sources = await makeVolumes(driver, ['a', 'b']);
    const group = await makeGroup(driver, sources);
    const [first = '', second = ''] = memberIds(group);
    const alone = await makeSnapshot(driver, sources[0] ?? '', 's');
    for (const snapshot_ids of [
      [],
      [first],
      [first, first],
      [first, second, second],
      [first, second, alone],
      ['x', 'y'],
    ]) {
      const request = { group_snapshot_id: group.group_snapshot_id, snapshot_ids };
      await fails(groupController.DeleteVolumeGroupSnapshot(request), 'INVALID_ARGUMENT', /snapshot_ids/);
      await fails(groupController.GetVolumeGroupSnapshot(request), 'INVALID_ARGUMENT', /snapshot_ids/);
    }
    assert.deepEqual(await listedIds(driver), [first, second, alone].sort());
  });

  test('GR18: while a volume is made from a member nothing is deleted', async () => {
    await using driver = await TestDriver.start();
    const group = await makeGroup(driver, await makeVolumes(driver, ['a', 'b']));
    const request = { group_snapshot_id: group.group_snapshot_id, snapshot_ids: memberIds(group) };
    const work = gate();
    const claims = [{ object: memberIds(group)[1] ?? '', isShared: true }];
    const restoring = driver.objects.claim(claims, 'CreateVolume', () => work.opened);
    await fails(driver.client.groupController.DeleteVolumeGroupSnapshot(request), 'ABORTED', /CreateVolume/);
    assert.equal((await listedIds(driver)).length, 2);
    work.open();
    await restoring;
    await driver.client.groupController.DeleteVolumeGroupSnapshot(request);
  });

  test('GR17: a deletion that failed half-way is finished by the next try', async () => {
    await using driver = await TestDriver.start(sharing);
    const { groupController } = driver.client;
    const group = await makeGroup(driver, await makeVolumes(driver, ['a', 'b']));
    const request = { group_snapshot_id: group.group_snapshot_id, snapshot_ids: memberIds(group) };
    const directory = driver.scratch.join('data/pools/main/snapshots');
    execFileSync('chattr', ['+i', directory]);
    try {
      await fails(groupController.DeleteVolumeGroupSnapshot(request), 'INTERNAL');
    } finally {
      execFileSync('chattr', ['-i', directory]);
    }
    await groupController.DeleteVolumeGroupSnapshot(request);
    assert.deepEqual(await listedIds(driver), []);
    assert.deepEqual(readdirSync(directory), []);
  });

  test('DV08: while a pool cannot be opened, an unknown group might be in it', async () => {
    await using driver = await TestDriver.start({ pools: { main: {}, sick: {} }, failing: { sick: 'no disk' } });
    const request = { group_snapshot_id: noSuchGroup };
    await fails(driver.client.groupController.DeleteVolumeGroupSnapshot(request), 'UNAVAILABLE');
    await fails(driver.client.groupController.GetVolumeGroupSnapshot(request), 'UNAVAILABLE');
  });
});

describe('GetVolumeGroupSnapshot', () => {
  test('GR19 GR20: INVALID_ARGUMENT for a missing id, NOT_FOUND for unknown ones, whatever snapshot_ids say', async () => {
    await using driver = await TestDriver.start();
    const { groupController } = driver.client;
    await fails(groupController.GetVolumeGroupSnapshot({}), 'INVALID_ARGUMENT');
    for (const group_snapshot_id of [noSuchGroup, ...malformed]) {
      await fails(groupController.GetVolumeGroupSnapshot({ group_snapshot_id }), 'NOT_FOUND');
      await fails(groupController.GetVolumeGroupSnapshot({ group_snapshot_id, snapshot_ids: ['x'] }), 'NOT_FOUND');
    }
  });
});
