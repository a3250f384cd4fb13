import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import type { CatalogOptions } from '../../src/pool/catalog/open.ts';
import type { Pool } from '../../src/pool/pool.ts';
import type { VolumeContent } from '../../src/volume/capability.ts';
import { AlreadyExists, NotFound, ResourceExhausted } from '../../src/volume/errors.ts';
import { volumeSpec } from '../support/image-pool.ts';
import { withMounted } from '../support/mounted-volume.ts';
import { Scratch } from '../support/scratch.ts';
import { specsOf } from './pool-contract.ts';

const mebibyte = 1n << 20n;
const day = 86_400;

/** A pool that can be opened with options of its own. */
export interface PoolWithOptions {
  open(scratch: Scratch, options?: Partial<CatalogOptions>): Promise<Pool>;
  readonly content?: VolumeContent;
  readonly isOneVolume?: true;
}

/** What every kind of pool must do that keeps what is deleted for a time. */
export function describeTrash(kind: string, { content, isOneVolume, open }: PoolWithOptions): void {
  const specOf = specsOf(content);
  describe(`${kind}: undelete`, () => {
    test('a deleted volume comes back with its id, name and data, also after a restart', async () => {
      using scratch = new Scratch('trash');
      const pool = await open(scratch, { undeleteSeconds: day });
      const volume = await pool.create(specOf('precious'));
      await withMounted(pool, volume.id, scratch, (path) => writeFileSync(`${path}/file`, 'precious'));
      await pool.remove(volume.id);
      assert.equal(await pool.find(volume.id), undefined);
      await pool.close();
      const again = await open(scratch, { undeleteSeconds: day });
      const [trashed] = await again.trash();
      assert.deepEqual(trashed?.record, volume);
      assert.deepEqual(await again.restore(volume.id), volume);
      assert.deepEqual(await again.trash(), []);
      await withMounted(again, volume.id, scratch, (path) =>
        assert.equal(readFileSync(`${path}/file`, 'utf8'), 'precious'),
      );
      await again.close();
    });

    test('off by default: deleted is gone at once', async () => {
      using scratch = new Scratch('trash');
      const pool = await open(scratch);
      const { id } = await pool.create(specOf('gone'));
      await pool.remove(id);
      assert.deepEqual(await pool.trash(), []);
      await assert.rejects(pool.restore(id), NotFound);
      await pool.close();
    });

    test('what has had its time goes', async () => {
      using scratch = new Scratch('trash');
      const pool = await open(scratch, { undeleteSeconds: 1 });
      const { id } = await pool.create(specOf('old'));
      await pool.remove(id);
      const [trashed] = await pool.trash();
      await pool.close();
      await new Promise((resolve) => setTimeout(resolve, Date.parse(trashed?.purgeAt ?? '') - Date.now() + 50));
      const again = await open(scratch);
      assert.deepEqual(await again.trash(), []);
      await again.close();
    });

    test('a restored volume that is deleted without undelete is gone', async () => {
      using scratch = new Scratch('trash');
      const pool = await open(scratch);
      const { id } = await pool.create(specOf('twice', { undeleteSeconds: day }));
      await pool.remove(id);
      await pool.restore(id);
      await pool.modify(id, { undeleteSeconds: 0 });
      await pool.remove(id);
      assert.deepEqual(await pool.trash(), []);
      await pool.close();
      const again = await open(scratch);
      assert.deepEqual(await again.trash(), []);
      await again.close();
    });

    test('purge ends the time in the trash, of one volume or of all', async () => {
      using scratch = new Scratch('trash');
      const pool = await open(scratch, { undeleteSeconds: day });
      const ids = [];
      for (const name of isOneVolume ? ['a'] : ['a', 'b', 'c']) ids.push((await pool.create(specOf(name))).id);
      for (const id of ids) await pool.remove(id);
      const [first, ...others] = ids;
      assert.deepEqual(await pool.purge(first), [first]);
      assert.equal((await pool.purge()).length, others.length);
      assert.deepEqual(await pool.trash(), []);
      await pool.close();
    });

    if (isOneVolume) return;

    test("a volume's own word goes before its pool's", async () => {
      using scratch = new Scratch('trash');
      const pool = await open(scratch, { undeleteSeconds: day });
      const gone = await pool.create(specOf('gone', { undeleteSeconds: 0 }));
      const kept = await pool.create(specOf('kept', { undeleteSeconds: 60 }));
      for (const { id } of [gone, kept]) await pool.remove(id);
      const [trashed, ...others] = await pool.trash();
      assert.deepEqual(others, []);
      assert.equal(trashed?.record.id, kept.id);
      assert.equal(Date.parse(trashed.purgeAt) - Date.parse(trashed.deletedAt), 60_000);
      await pool.close();
    });

    test('a name can be used again while its old volume is in the trash; the last one deleted comes back', async () => {
      using scratch = new Scratch('trash');
      const pool = await open(scratch, { undeleteSeconds: day });
      const first = await pool.create(specOf('name'));
      await pool.remove(first.id);
      const second = await pool.create(specOf('name', { sizeBytes: 96n * mebibyte }));
      await assert.rejects(pool.restore(first.id), AlreadyExists);
      await new Promise((resolve) => setTimeout(resolve, 5));
      await pool.remove(second.id);
      assert.equal((await pool.trash()).length, 2);
      assert.equal((await pool.restore(second.id)).sizeBytes, 96n * mebibyte);
      await pool.close();
    });
  });
}

/** What every kind of pool must do whose volumes can take their blocks at once. */
export function describeThickness(kind: string, { open }: PoolWithOptions): void {
  describe(`${kind}: modify`, () => {
    test('MV04 MV07 MV08: thick reserves the space, thin releases it, the data stays, again is fine', async () => {
      using scratch = new Scratch('modify');
      const pool = await open(scratch);
      for (const content of [{ type: 'block' }, { type: 'mount', fsType: 'ext4' }] as const) {
        const { id } = await pool.create(volumeSpec(content.type, { content, undeleteSeconds: 60 }));
        const usedBytes = async () => (await pool.capacity()).usedBytes;
        const thin = await usedBytes();
        for (const _try of [1, 2]) {
          const record = await pool.modify(id, { provisioning: 'thick' });
          assert.equal(record.provisioning, 'thick');
          assert.equal(record.undeleteSeconds, 60);
        }
        assert.ok((await usedBytes()) - thin > 55n * mebibyte);
        for (const _try of [1, 2]) assert.equal((await pool.modify(id, { provisioning: 'thin' })).provisioning, 'thin');
        assert.ok((await usedBytes()) - thin < 4n * mebibyte);
        if (content.type === 'mount') await withMounted(pool, id, scratch, (path) => writeFileSync(`${path}/file`, ''));
        await pool.remove(id);
        await pool.purge();
      }
      await pool.close();
    });
  });
}

/** For a pool of its own filesystem, where nobody else takes space. */
export function describeTrashUnderPressure(kind: string, { open }: PoolWithOptions): void {
  test(`${kind}: the trash counts as available, and what was deleted first goes first when its space is needed`, async () => {
    using scratch = new Scratch('trash');
    const pool = await open(scratch, { undeleteSeconds: day });
    const block = { content: { type: 'block' }, provisioning: 'thick' } as const;
    const empty = (await pool.capacity()).availableBytes;
    const third = (empty / 3n / 4096n) * 4096n - 16n * mebibyte;
    const ids = [];
    for (const name of ['first', 'second', 'third']) {
      const { id } = await pool.create(volumeSpec(name, { ...block, sizeBytes: third }));
      await pool.remove(id);
      ids.push(id);
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    assert.ok(empty - (await pool.capacity()).availableBytes < 64n * mebibyte);
    await pool.create(volumeSpec('new', { ...block, sizeBytes: third }));
    assert.deepEqual(
      (await pool.trash()).map(({ record }) => record.id),
      [ids[2], ids[1]],
    );
    await pool.restore(ids[2] ?? volumeSpec('').id);
    await assert.rejects(pool.create(volumeSpec('large', { ...block, sizeBytes: third * 2n })), ResourceExhausted);
    assert.equal((await pool.trash()).length, 1);
    await pool.close();
  });

  test(`${kind}: what is restored asks for its space again, and stays in the trash if there is none`, async () => {
    using scratch = new Scratch('trash');
    const pool = await open(scratch, { undeleteSeconds: day });
    const half = ((await pool.capacity()).availableBytes / 2n / 4096n) * 4096n;
    const sparse = { content: { type: 'block' }, provisioning: 'thin' } as const;
    const { id } = await pool.create(volumeSpec('deleted', { ...sparse, sizeBytes: half }));
    await pool.remove(id);
    const other = await pool.create(volumeSpec('other', { ...sparse, sizeBytes: half + 64n * mebibyte }));
    await assert.rejects(pool.restore(id), ResourceExhausted);
    assert.deepEqual(
      (await pool.trash()).map(({ record }) => record.id),
      [id],
    );
    await pool.remove(other.id);
    assert.equal((await pool.restore(id)).id, id);
    await pool.close();
  });

  test(`${kind}: before something is restored it is asked whether there is room: nothing goes for that, and it counts for none itself`, async () => {
    using scratch = new Scratch('trash');
    const pool = await open(scratch, { undeleteSeconds: day });
    const half = ((await pool.capacity()).availableBytes / 2n / 4096n) * 4096n;
    const thin = { content: { type: 'mount', fsType: 'ext4' }, provisioning: 'thin' } as const;
    const thick = { ...thin, provisioning: 'thick', sizeBytes: half - 64n * mebibyte } as const;
    const { id } = await pool.create(volumeSpec('wanted', { ...thin, sizeBytes: half }));
    await withMounted(pool, id, scratch, (path) => writeFileSync(`${path}/file`, randomBytes(96 << 20)));
    await pool.remove(id);
    const spare = await pool.create(volumeSpec('spare', thick));
    await pool.remove(spare.id);
    const trashed = async () => (await pool.trash()).map(({ record }) => record.id);
    const used = await pool.create(volumeSpec('used', { ...thin, sizeBytes: 128n * mebibyte }));
    await pool.requireRestorable(id);
    assert.deepEqual(await trashed(), [spare.id, id]);
    await pool.restore(id);
    assert.deepEqual(await trashed(), []);
    await pool.remove(used.id);
    await pool.remove(id);
    const large = await pool.create(volumeSpec('large', { ...thin, sizeBytes: half + 32n * mebibyte }));
    await assert.rejects(pool.requireRestorable(id), ResourceExhausted);
    await assert.rejects(pool.restore(id), ResourceExhausted);
    assert.equal((await trashed()).includes(id), true);
    await pool.remove(large.id);
    await pool.requireRestorable(id);
    await pool.close();
  });
}
