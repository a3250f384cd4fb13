import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import type { Catalog } from '../../src/pool/catalog/catalog.ts';
import { FileRecords } from '../../src/pool/records/file-records.ts';
import { Layout } from '../../src/pool/records/layout.ts';
import { AlreadyExists } from '../../src/volume/errors.ts';
import { type GroupId, groupIdFor, memberIdFor, snapshotIdFor, type VolumeId } from '../../src/volume/id.ts';
import { serializeGroup } from '../../src/volume/snapshot-record.ts';
import { sparseFile } from '../support/disk.ts';
import { eventually } from '../support/eventually.ts';
import { FailingSync } from '../support/failing-sync.ts';
import { openTestPool, volumeSpec } from '../support/image-pool.ts';
import { Scratch } from '../support/scratch.ts';

const failed = { code: 'EIO' };
const queue = new DiskQueue('test', 2);
const group = { id: groupIdFor('node', 'group'), name: 'group', parameters: {} };
const published = { nodeId: 'node', mode: 'SINGLE_NODE_WRITER', readonly: false } as const;

/** Of the two directories of a rename, one sync is enough where one journal has both. */
const places = [
  { filesystem: 'xfs', synced: ['volumes'] },
  { filesystem: 'btrfs', synced: ['volumes', 'trash'] },
] as const;

for (const { filesystem, synced } of places) {
  describe(`on ${filesystem}, a sync that fails after what it was to make durable`, () => failures(filesystem, synced));
}

function failures(filesystem: 'xfs' | 'btrfs', synced: readonly ('volumes' | 'trash')[]): void {
  let scratch: Scratch;
  let pool: Catalog;
  let layout: Layout;
  let records: FileRecords<{ queue: DiskQueue; layout: Layout }>;
  let count = 0;
  before(async () => {
    scratch = new Scratch('sync');
    layout = new Layout(filesystem === 'xfs' ? scratch.join('data/pools/test') : scratch.join('disk/pool'));
    if (filesystem === 'btrfs') {
      const disk = sparseFile(scratch.join('disk.img'), 4096);
      mkdirSync(scratch.join('disk'));
      execFileSync('mkfs.btrfs', ['-q', disk]);
      execFileSync('mount', ['-o', 'loop', disk, scratch.join('disk')]);
    }
    records = new FileRecords({ queue, layout });
    pool = await open();
  });
  after(async () => {
    await pool.close();
    scratch[Symbol.dispose]();
  });

  const open = () => {
    const location =
      filesystem === 'xfs'
        ? ({ type: 'file', path: scratch.join('pool.img'), sizeBytes: 4n << 30n } as const)
        : ({ type: 'directory', path: layout.root } as const);
    return openTestPool(scratch, { location, undeleteSeconds: 3600 });
  };

  /** Makes it fail in this directory, sees that memory and disk agree then, and that they do after a restart. */
  async function fail(directory: string, call: () => Promise<unknown>, times = 1): Promise<void> {
    using failing = new FailingSync(directory, times);
    await assert.rejects(call(), failed);
    assert.ok(times > 1 || failing.isUsedUp, `${directory} was not synced`);
    await assertAgreement();
  }

  /** What the pool says is what lies on its disk. */
  async function assertAgreement(): Promise<void> {
    const { groups, snapshots, volumes } = await records.read();
    const { kept } = await records.readTrash();
    const byId = (a: { id: string }, b: { id: string }) => (a.id < b.id ? -1 : 1);
    assert.deepEqual(await pool.list(undefined, undefined), volumes.records.sort(byId));
    assert.deepEqual(await pool.listSnapshots(undefined, undefined), snapshots.records.sort(byId));
    assert.deepEqual(
      (await pool.trash()).map(({ record }) => record).sort(byId),
      kept.map(({ record }) => record).sort(byId),
    );
    const provisionedBytes = volumes.records.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0n);
    assert.equal((await pool.capacity()).provisionedBytes, provisionedBytes);
    for (const { memberIds } of groups.records) {
      for (const id of memberIds) assert.ok(await pool.findSnapshot(id), `${id} is in a group, and is not there`);
    }
  }

  async function restart(): Promise<void> {
    await pool.close();
    pool = await open();
  }

  async function makeVolume(): Promise<VolumeId> {
    return (await pool.create(volumeSpec(`volume ${count++}`))).id;
  }

  async function membersOf(id: GroupId): Promise<number> {
    const found = await pool.findGroup(id);
    const members = await Promise.all((found?.memberIds ?? []).map((member) => pool.findSnapshot(member)));
    return members.filter((member) => member !== undefined).length;
  }

  for (const place of synced) {
    test(`DeleteVolume, ${place}: the volume is listed in the trash at once, and comes back`, async () => {
      const id = await makeVolume();
      await fail(layout[place], () => pool.remove(id));
      await pool.remove(id);
      assert.equal(await pool.find(id), undefined);
      assert.equal((await pool.trash())[0]?.record.id, id);
      await pool.restore(id);
      await restart();
      assert.ok(await pool.find(id));
    });

    test(`DeleteVolume without undelete, ${place}: what it leaves is unlinked`, async () => {
      const id = await makeVolume();
      await pool.modify(id, { undeleteSeconds: 0 });
      await fail(layout[place], () => pool.remove(id));
      await pool.remove(id);
      await eventually(() => assert.ok(!readdirSync(layout.trash).some((name) => name.startsWith(id))));
    });

    test(`trash restore, ${place}: the volume is back`, async () => {
      const id = await makeVolume();
      await pool.remove(id);
      await fail(layout[place], () => pool.restore(id));
      await assert.rejects(pool.restore(id), AlreadyExists);
      assert.ok(await pool.find(id));
      await (await pool.attach(id, { persistent: false })).release();
    });
  }

  test('CreateVolume: made by the retry', async () => {
    const spec = volumeSpec('created');
    await fail(layout.volumes, () => pool.create(spec));
    await pool.create(spec);
    await assertAgreement();
  });

  test('expansion, modification, publication: the record is what lies on the disk', async () => {
    const id = await makeVolume();
    const directory = layout.volume(id);
    await fail(directory, () => pool.grow(id, 96n << 20n));
    await fail(directory, () => pool.modify(id, { undeleteSeconds: 5 }));
    await fail(directory, () => pool.setPublication(id, published));
    const { publication, sizeBytes, undeleteSeconds } = (await pool.find(id)) ?? {};
    assert.deepEqual(
      { publication, sizeBytes, undeleteSeconds },
      {
        publication: published,
        sizeBytes: 96n << 20n,
        undeleteSeconds: 5,
      },
    );
    await fail(directory, () => pool.setPublication(id, undefined));
    assert.equal((await pool.find(id))?.publication, undefined);
  });

  test('CreateSnapshot and DeleteSnapshot', async () => {
    const sourceId = await makeVolume();
    const spec = { id: snapshotIdFor('node', 'snapshot'), name: 'snapshot', sourceId, parameters: {} };
    await fail(layout.snapshots, () => pool.takeSnapshots([spec]));
    await pool.takeSnapshots([spec]);
    for (const place of synced.map((name) => (name === 'trash' ? layout.trash : layout.snapshots))) {
      await fail(place, () => pool.removeSnapshot(spec.id));
      await pool.removeSnapshot(spec.id);
      assert.equal(await pool.findSnapshot(spec.id), undefined);
      await pool.takeSnapshots([spec]);
    }
    await pool.removeSnapshot(spec.id);
    await eventually(() => assert.ok(!readdirSync(layout.trash).some((name) => name.startsWith(spec.id))));
  });

  test('a group: it has its members, also after a restart, or it can be made again', async () => {
    const sourceIds = [await makeVolume(), await makeVolume()];
    const specs = sourceIds.map((sourceId) => ({
      ...{ id: memberIdFor(group.id, sourceId), name: 'group', sourceId, parameters: {} },
    }));
    const cut = () => pool.takeSnapshots(specs, group);
    await fail(layout.snapshots, cut);
    assert.equal(await pool.findGroup(group.id), undefined);
    await fail(layout.groups, cut);
    assert.equal(await membersOf(group.id), 2);
    await restart();
    assert.equal(await membersOf(group.id), 2);
    await fail(layout.groups, () => pool.removeGroup(group.id));
    await pool.removeGroup(group.id);
    assert.equal(await pool.findGroup(group.id), undefined);
    await assertAgreement();
    await cut();
    await fail(synced.includes('trash') ? layout.trash : layout.snapshots, () => pool.removeGroup(group.id));
    await pool.removeGroup(group.id);
    await assertAgreement();
    assert.deepEqual(await pool.listSnapshots(undefined, undefined), []);
  });

  test('a group without members, which earlier drivers could leave, is gone after a restart', async () => {
    const record = {
      ...group,
      createdAt: new Date().toISOString(),
      memberIds: [memberIdFor(group.id, await makeVolume())],
    };
    writeFileSync(layout.group(group.id), serializeGroup(record));
    await restart();
    assert.equal(await pool.findGroup(group.id), undefined);
    assert.ok(!existsSync(layout.group(group.id)));
  });

  test('a repair', async () => {
    const id = await makeVolume();
    const originals = async () => (await pool.trash()).filter(({ record }) => record.source?.id === id).length;
    await fail(layout.trash, () => pool.repair(id, 'ext4'));
    assert.equal(await originals(), 1);
    await fail(layout.volume(id), () => pool.repair(id, 'ext4'));
    assert.equal(await originals(), 2);
    await pool.repair(id, 'ext4');
    await assertAgreement();
    assert.equal((await pool.condition(id)).abnormal, true);
  });

  test('nobody is told of what is not durable: a replay syncs again, and fails as long as that does', async () => {
    const id = await makeVolume();
    await fail(layout.volume(id), () => pool.grow(id, 96n << 20n), 2);
    {
      using failing = new FailingSync(layout.volume(id));
      await assert.rejects(pool.find(id), failed);
      assert.ok(failing.isUsedUp);
    }
    assert.equal((await pool.find(id))?.sizeBytes, 96n << 20n);
    await pool.remove(id);
    assert.ok(!existsSync(layout.volume(id)));
  });
}
