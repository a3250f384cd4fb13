import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { attachDevice } from '../../src/pool/attached-device.ts';
import type { SnapshotSpec } from '../../src/pool/pool.ts';
import { AlreadyExists, FailedPrecondition, NotFound } from '../../src/volume/errors.ts';
import { groupIdFor, memberIdFor, snapshotIdFor, type VolumeId, volumeIdFor } from '../../src/volume/id.ts';
import { eventually } from '../support/eventually.ts';
import { Frozen } from '../support/frozen.ts';
import { volumeSpec } from '../support/image-pool.ts';
import { mounted, mountedDevice, withMounted } from '../support/mounted-volume.ts';
import { Scratch } from '../support/scratch.ts';
import { mountableContents, type PoolUnderTest, specsOf } from './pool-contract.ts';

const mebibyte = 1n << 20n;

export function snapshotSpec(name: string, sourceId: VolumeId): SnapshotSpec {
  return { id: snapshotIdFor('node', name), name, sourceId, parameters: {} };
}

/** What every kind of pool must do that offers snapshots and clones. */
export function describeSnapshots(kind: string, { content: only, open }: PoolUnderTest): void {
  const specOf = specsOf(only);
  describe(`${kind}: the snapshot contract`, () => {
    test('CS04 CS06 DS07 LS08: a snapshot is found and listed, also after a restart and without its source', async () => {
      using scratch = new Scratch('snapshot');
      const pool = await open(scratch);
      const volume = await pool.create(specOf('source'));
      const [cut] = await pool.takeSnapshots([snapshotSpec('snap', volume.id)]);
      assert.ok(cut);
      assert.equal(cut.sizeBytes, volume.sizeBytes);
      await assert.rejects(pool.takeSnapshots([snapshotSpec('snap', volume.id)]), AlreadyExists);
      await pool.remove(volume.id);
      await pool.close();
      const again = await open(scratch);
      assert.deepEqual(await again.findSnapshot(cut.id), cut);
      assert.deepEqual(await again.listSnapshots(undefined, undefined, volume.id), [cut]);
      assert.deepEqual(await again.listSnapshots(cut.id, undefined), []);
      await again.removeSnapshot(cut.id);
      await again.removeSnapshot(cut.id);
      assert.equal(await again.findSnapshot(cut.id), undefined);
      await again.close();
    });

    test('CV25 CV27 PB19: a restored volume has the data of the cut in the asked size, and both go their own ways', async () => {
      using scratch = new Scratch('snapshot');
      const pool = await open(scratch);
      for (const content of mountableContents(pool.traits)) {
        const what = JSON.stringify(content);
        const source = await pool.create(volumeSpec(what, { content, sizeBytes: 320n * mebibyte }));
        const bytes = randomBytes(1 << 20);
        await withMounted(pool, source.id, scratch, (path) => writeFileSync(`${path}/file`, bytes));
        const [snapshot] = await pool.takeSnapshots([snapshotSpec(`snap ${what}`, source.id)]);
        assert.ok(snapshot);
        await withMounted(pool, source.id, scratch, (path) => writeFileSync(`${path}/file`, 'changed later'));
        const spec = volumeSpec(`restored ${what}`, { content, sizeBytes: 640n * mebibyte });
        const restored = await pool.create(spec, { type: 'snapshot', id: snapshot.id });
        assert.equal(restored.sizeBytes, 640n * mebibyte);
        assert.deepEqual(restored.source, { type: 'snapshot', id: snapshot.id });
        await withMounted(pool, restored.id, scratch, (path) => {
          assert.ok(readFileSync(`${path}/file`).equals(bytes));
          writeFileSync(`${path}/file`, 'changed in the copy');
        });
        await withMounted(pool, source.id, scratch, (path) =>
          assert.equal(readFileSync(`${path}/file`, 'utf8'), 'changed later'),
        );
      }
      await pool.close();
    });

    test('CV25 CV26: a clone holds the data of its source, which can go at once', async () => {
      using scratch = new Scratch('snapshot');
      const pool = await open(scratch);
      const source = await pool.create(specOf('source'));
      await withMounted(pool, source.id, scratch, (path) => writeFileSync(`${path}/file`, 'original'));
      const clone = await pool.create(specOf('clone'), { type: 'volume', id: source.id });
      await pool.remove(source.id);
      await withMounted(pool, clone.id, scratch, (path) =>
        assert.equal(readFileSync(`${path}/file`, 'utf8'), 'original'),
      );
      await pool.close();
    });

    test('unknown sources are NOT_FOUND and leave nothing', async () => {
      using scratch = new Scratch('snapshot');
      const pool = await open(scratch);
      const nobody = volumeIdFor('node', 'test', 'nobody');
      await assert.rejects(pool.takeSnapshots([snapshotSpec('snap', nobody)]), NotFound);
      await assert.rejects(pool.create(specOf('clone'), { type: 'volume', id: nobody }), NotFound);
      const id = snapshotIdFor('node', 'no such');
      await assert.rejects(pool.create(specOf('clone'), { type: 'snapshot', id }), NotFound);
      assert.deepEqual(await pool.listSnapshots(undefined, undefined), []);
      await pool.close();
    });

    test('GR05 GR11 GR13 GR17: members come and go with their group, also across a restart', async () => {
      using scratch = new Scratch('snapshot');
      const pool = await open(scratch);
      const volumes = [await pool.create(specOf('a')), await pool.create(specOf('b'))];
      const group = { id: groupIdFor('node', 'group'), name: 'group', parameters: {} };
      const specs = volumes.map(({ id }) => ({ ...snapshotSpec('', id), id: memberIdFor(group.id, id) }));
      const members = await pool.takeSnapshots(specs, group);
      assert.equal(new Set(members.map(({ createdAt }) => createdAt)).size, 1);
      await pool.close();
      const again = await open(scratch);
      assert.deepEqual(
        (await again.findGroup(group.id))?.memberIds,
        members.map(({ id }) => id),
      );
      assert.equal((await again.listSnapshots(undefined, undefined)).length, 2);
      await again.removeGroup(group.id);
      await again.removeGroup(group.id);
      assert.equal(await again.findGroup(group.id), undefined);
      assert.deepEqual(await again.listSnapshots(undefined, undefined), []);
      await again.close();
    });

    test('GR10: one member that cannot be cut leaves no other', async () => {
      using scratch = new Scratch('snapshot');
      const pool = await open(scratch);
      const volume = await pool.create(specOf('a'));
      const group = { id: groupIdFor('node', 'group'), name: 'group', parameters: {} };
      const specs = [snapshotSpec('one', volume.id), snapshotSpec('two', volumeIdFor('node', 'test', 'nobody'))];
      await assert.rejects(pool.takeSnapshots(specs, group), NotFound);
      assert.deepEqual(await pool.listSnapshots(undefined, undefined), []);
      assert.equal(await pool.findGroup(group.id), undefined);
      await pool.close();
    });
  });
}

/** What kinds of pool must do whose volumes are filesystems of their own. */
export function describeIdentities(kind: string, { open }: PoolUnderTest): void {
  describe(`${kind}: the identities of clones`, () => {
    test('the filesystems of a volume, its clone and a restored snapshot are mounted side by side, each with a UUID of its own', async () => {
      using scratch = new Scratch('snapshot');
      const pool = await open(scratch);
      for (const fsType of pool.traits.filesystems) {
        const content = { type: 'mount', fsType } as const;
        const sizeBytes = 320n * mebibyte;
        const source = await pool.create(volumeSpec(fsType, { content, sizeBytes }));
        const clone = await pool.create(volumeSpec(`clone ${fsType}`, { content, sizeBytes }), {
          type: 'volume',
          id: source.id,
        });
        const [cut] = await pool.takeSnapshots([snapshotSpec(`snap ${fsType}`, source.id)]);
        assert.ok(cut);
        const restored = await pool.create(volumeSpec(`restored ${fsType}`, { content, sizeBytes }), {
          type: 'snapshot',
          id: cut.id,
        });
        await using first = await mountedDevice(pool, source.id, scratch);
        await using second = await mountedDevice(pool, clone.id, scratch);
        await using third = await mountedDevice(pool, restored.id, scratch);
        const uuids = [first, second, third].map(({ devicePath }) =>
          execFileSync('blkid', ['-p', '-o', 'value', '-s', 'UUID', devicePath], { encoding: 'utf8' }),
        );
        assert.equal(new Set(uuids).size, 3);
      }
      await pool.close();
    });
  });
}

/** What a pool must do whose snapshots are made at once, by sharing blocks. */
export function describeInstantSnapshots(kind: string, { open }: PoolUnderTest): void {
  describe(`${kind}: snapshots of volumes in use`, () => {
    test('CS13: what was written and synced before the cut is in it, and the writer goes on', async () => {
      using scratch = new Scratch('snapshot');
      const pool = await open(scratch);
      for (const fsType of pool.traits.filesystems) {
        const content = { type: 'mount', fsType } as const;
        const sizeBytes = 320n * mebibyte;
        const source = await pool.create(volumeSpec(fsType, { content, sizeBytes }));
        await using inUse = await mounted(pool, source.id, scratch);
        writeFileSync(`${inUse.path}/before`, 'before');
        const [snapshot] = await pool.takeSnapshots([snapshotSpec(`snap ${fsType}`, source.id)]);
        writeFileSync(`${inUse.path}/after`, 'after');
        assert.ok(snapshot);
        const restored = await pool.create(volumeSpec(`restored ${fsType}`, { content, sizeBytes }), {
          type: 'snapshot',
          id: snapshot.id,
        });
        await withMounted(pool, restored.id, scratch, (path) => {
          assert.equal(readFileSync(`${path}/before`, 'utf8'), 'before');
          assert.equal(existsSync(`${path}/after`), false);
        });
      }
      await pool.close();
    });

    test('T04: a filesystem that a killed driver left frozen is thawed at the start', async () => {
      using scratch = new Scratch('snapshot');
      const pool = await open(scratch);
      const { id } = await pool.create(volumeSpec('frozen'));
      await using inUse = await mounted(pool, id, scratch);
      await pool.close();
      using frozen = await Frozen.byDriver(scratch, id, inUse.path);
      const again = await open(scratch);
      frozen.assertThawed();
      writeFileSync(`${inUse.path}/file`, 'writable again');
      await again.close();
    });

    test('a filesystem in use that a hook has frozen stays so at a start', async () => {
      using scratch = new Scratch('snapshot');
      const pool = await open(scratch);
      const { id } = await pool.create(volumeSpec('frozen'));
      await using inUse = await mounted(pool, id, scratch);
      await pool.close();
      using frozen = Frozen.byHook(inUse.path);
      const again = await open(scratch);
      // Fails if it is not frozen any more.
      frozen.thaw();
      await again.close();
    });

    test('CS13: a filesystem that a hook has frozen is snapshotted and cloned, and its freeze left to the hook', async () => {
      using scratch = new Scratch('snapshot');
      const pool = await open(scratch);
      for (const fsType of pool.traits.filesystems) {
        const spec = { content: { type: 'mount', fsType }, sizeBytes: 320n * mebibyte } as const;
        const { id } = await pool.create(volumeSpec(`frozen ${fsType}`, spec));
        await using inUse = await mounted(pool, id, scratch);
        writeFileSync(`${inUse.path}/before`, 'before');
        using frozen = Frozen.byHook(inUse.path);
        const [snapshot] = await pool.takeSnapshots([snapshotSpec(`snap ${fsType}`, id)]);
        const clone = await pool.create(volumeSpec(`clone ${fsType}`, spec), { type: 'volume', id });
        // Fails if it is not frozen any more.
        frozen.thaw();
        assert.ok(snapshot);
        const restored = await pool.create(volumeSpec(`restored ${fsType}`, spec), {
          type: 'snapshot',
          id: snapshot.id,
        });
        for (const copy of [clone, restored]) {
          await withMounted(pool, copy.id, scratch, (path) => {
            assert.equal(readFileSync(`${path}/before`, 'utf8'), 'before');
          });
        }
      }
      await pool.close();
    });

    test('GR08: raw block volumes in use cannot be cut together, alone they can', async () => {
      using scratch = new Scratch('snapshot');
      const pool = await open(scratch);
      const volumes = [];
      for (const name of ['a', 'b']) volumes.push(await pool.create(volumeSpec(name, { content: { type: 'block' } })));
      const [first] = volumes;
      assert.ok(first);
      const attachment = await attachDevice(pool, first.id, { persistent: true });
      await attachment.release();
      writeFileSync(attachment.devicePath, Buffer.alloc(4096, 5));
      const group = { id: groupIdFor('node', 'group'), name: 'group', parameters: {} };
      const specs = volumes.map(({ id }) => ({ ...snapshotSpec('', id), id: memberIdFor(group.id, id) }));
      await assert.rejects(pool.takeSnapshots(specs, group), FailedPrecondition);
      const [alone] = await pool.takeSnapshots([snapshotSpec('alone', first.id)]);
      assert.ok(alone);
      const restored = await pool.create(volumeSpec('restored', { content: { type: 'block' } }), {
        type: 'snapshot',
        id: alone.id,
      });
      const copy = await attachDevice(pool, restored.id, { persistent: true });
      await copy.release();
      assert.equal(readFileSync(copy.devicePath)[0], 5);
      for (const each of [attachment, copy]) await pool.detach(each);
      await pool.close();
    });

    test('CS10 GC04: a snapshot counts what its source may come to write anew', async () => {
      using scratch = new Scratch('snapshot');
      const pool = await open(scratch);
      const source = await pool.create(
        volumeSpec('full', {
          content: { type: 'block' },
          provisioning: pool.traits.provisioning.includes('thick') ? 'thick' : 'thin',
          sizeBytes: 256n * mebibyte,
        }),
      );
      const attached = await attachDevice(pool, source.id, { persistent: true });
      const { devicePath, release } = attached;
      await release();
      writeFileSync(devicePath, Buffer.alloc(256 << 20, 1), { flag: 'r+', flush: true });
      await pool.detach(attached);
      const before = await pool.capacity();
      const [snapshot] = await pool.takeSnapshots([snapshotSpec('snap', source.id)]);
      const after = await pool.capacity();
      assert.ok(snapshot);
      assert.ok(before.availableBytes - after.availableBytes > 250n * mebibyte);
      await pool.removeSnapshot(snapshot.id);
      // Who only asks does not wait for long until what was removed is free.
      await eventually(async () => {
        const freed = await pool.capacity();
        assert.ok(before.availableBytes - freed.availableBytes < 16n * mebibyte);
      }, 60_000);
      await pool.close();
    });
  });
}
