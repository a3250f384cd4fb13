import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { describe, mock, test } from 'node:test';
import type { Catalog } from '../../src/pool/catalog/catalog.ts';
import { parseAge } from '../../src/pool/catalog/pool-age.ts';
import { ResourceExhausted } from '../../src/volume/errors.ts';
import type { VolumeId } from '../../src/volume/id.ts';
import { openTestPool, volumeSpec } from '../support/image-pool.ts';
import { withMounted } from '../support/mounted-volume.ts';
import { Scratch } from '../support/scratch.ts';

const day = 86_400;
const thickBlock = { content: { type: 'block' }, provisioning: 'thick' } as const;

describe('a purge of the trash', () => {
  test('that cannot note that it begins leaves the volume whole, for its space too', async () => {
    using scratch = new Scratch('purge');
    const pool = await open(scratch);
    const { id, sizeBytes } = await makeAndRemove(pool, 'kept', await threeQuarters(pool));
    const mark = `${root(scratch)}/trash/${trashed(scratch, id)}/deleted.json`;
    execFileSync('chattr', ['+i', mark]);
    try {
      await assert.rejects(pool.create(volumeSpec('new', { ...thickBlock, sizeBytes })), { code: 'EPERM' });
      await assert.rejects(pool.purge(id), { code: 'EPERM' });
      assert.deepEqual(await trashedIds(pool), [id]);
    } finally {
      execFileSync('chattr', ['-i', mark]);
      await pool.close();
    }
    const again = await open(scratch);
    await again.restore(id);
    assert.equal(statSync(`${root(scratch)}/volumes/${id}/data`, { bigint: true }).size, sizeBytes);
    assert.equal((await again.condition(id)).abnormal, false);
    await again.close();
  });

  test('for space passes over what a volume was before its repair, and its condition goes on telling of it', async () => {
    using scratch = new Scratch('purge');
    const pool = await open(scratch);
    const { id } = await pool.create(volumeSpec('repaired'));
    await pool.repair(id, 'ext4');
    const [original] = await trashedIds(pool);
    // Longer than what was only deleted: somebody has to notice.
    const [{ deletedAt = '', purgeAt = '' } = {}] = await pool.trash();
    assert.equal(Date.parse(purgeAt) - Date.parse(deletedAt), 14 * day * 1000);
    const { sizeBytes } = await makeAndRemove(pool, 'kept', await threeQuarters(pool));
    await pool.create(volumeSpec('new', { ...thickBlock, sizeBytes }));
    assert.deepEqual(await trashedIds(pool), [original]);
    assert.match((await pool.condition(id)).message, /has been repaired/);
    await pool.close();
    // Known again by what lies on the disk.
    const again = await open(scratch);
    await again.remove(volumeSpec('new').id);
    await again.create(volumeSpec('newer', { ...thickBlock, sizeBytes }));
    assert.deepEqual(await trashedIds(again), [original]);
    assert.deepEqual(await again.purge(original), [original]);
    assert.equal((await again.condition(id)).abnormal, false);
    await again.close();
  });
});

describe('what is to be unlinked', () => {
  test('has no mark of an earlier deletion, by which the next start would keep what is left of it', async () => {
    using scratch = new Scratch('purge');
    const pool = await open(scratch);
    const { id } = await pool.create(volumeSpec('v'));
    await pool.remove(id);
    await pool.restore(id);
    await pool.modify(id, { undeleteSeconds: 0 });
    let seen: string[] | undefined;
    const look = (name: unknown) => {
      if (name === 'remove/purge') seen ??= readdirSync(`${root(scratch)}/trash/${trashed(scratch, id)}`).sort();
    };
    subscribe('holdfast:step', look);
    try {
      await pool.remove(id);
      await pool.close();
    } finally {
      unsubscribe('holdfast:step', look);
    }
    assert.deepEqual(seen, ['data', 'volume.json']);
  });

  test('is nothing whose mark cannot be read: that is left for a person to look at', async () => {
    using scratch = new Scratch('purge');
    const pool = await open(scratch);
    const { id } = await pool.create(volumeSpec('v'));
    await pool.remove(id);
    const directory = `${root(scratch)}/trash/${trashed(scratch, id)}`;
    writeFileSync(`${directory}/deleted.json`, '{');
    pool.abandon();
    const again = await open(scratch);
    assert.deepEqual(await trashedIds(again), []);
    assert.deepEqual(await again.purge(), []);
    assert.deepEqual(readdirSync(directory).sort(), ['data', 'deleted.json', 'volume.json']);
    await again.close();
  });

  test('is never what a volume was before its repair, also when nothing else has its blocks any more', async () => {
    using scratch = new Scratch('purge');
    const pool = await open(scratch);
    const sizeBytes = ((await pool.capacity()).availableBytes / 3n / 8192n) * 8192n;
    const { id } = await pool.create(volumeSpec('repaired', { sizeBytes }));
    await withMounted(pool, id, scratch, (path) => writeFileSync(`${path}/data`, Buffer.alloc(400 << 20, 1)));
    await pool.repair(id, 'ext4');
    const [original] = await trashedIds(pool);
    await pool.modify(id, { undeleteSeconds: 0 });
    await pool.remove(id);
    const tooLarge = volumeSpec('new', { ...thickBlock, sizeBytes: (sizeBytes * 5n) / 2n });
    await assert.rejects(pool.create(tooLarge), ResourceExhausted);
    assert.deepEqual(await trashedIds(pool), [original]);
    await pool.close();
  });
});

describe('the time in the trash', () => {
  test('is counted from what the pool has noted when it was closed, or else from what lies in it', async () => {
    using scratch = new Scratch('purge');
    const pool = await open(scratch);
    const { id } = await pool.create(volumeSpec('kept'));
    await pool.remove(id);
    await pool.close();
    const mounted = await open(scratch);
    const age = `${root(scratch)}/age`;
    const deletion = `${root(scratch)}/trash/${trashed(scratch, id)}/deleted.json`;
    const { poolAgeMs, ...told } = JSON.parse(readFileSync(deletion, 'utf8'));
    assert.ok((parseAge(readFileSync(age, 'utf8'))?.ageMs ?? 0) >= poolAgeMs);
    await mounted.close();
    // The pool was ten days old, and its note is lost.
    const again = await open(scratch);
    writeFileSync(deletion, JSON.stringify({ ...told, poolAgeMs: 10 * day * 1000 }));
    again.abandon();
    rmSync(age);
    const aged = await open(scratch);
    const leftMs = Date.parse((await aged.trash())[0]?.purgeAt ?? '') - Date.now();
    assert.ok(leftMs <= day * 1000, `${leftMs}`);
    await aged.close();
  });

  test('does not end because the clock is ahead when the pool is opened, or jumps ahead', async () => {
    using scratch = new Scratch('purge');
    const pool = await open(scratch);
    const { id } = await pool.create(volumeSpec('kept'));
    await pool.remove(id);
    await pool.close();
    mock.timers.enable({ apis: ['Date'], now: Date.now() + 365 * day * 1000 });
    try {
      for (const _start of [1, 2]) {
        const ahead = await open(scratch);
        assert.deepEqual(await trashedIds(ahead), [id]);
        // Told is when it goes, by the clock that there is.
        const leftMs = Date.parse((await ahead.trash())[0]?.purgeAt ?? '') - Date.now();
        assert.ok(leftMs > 22 * 3600_000 && leftMs <= day * 1000, `${leftMs}`);
        await ahead.close();
      }
    } finally {
      mock.timers.reset();
    }
    const right = await open(scratch);
    await right.restore(id);
    await right.close();
  });

  test('of what a driver deleted that knows of no age begins when it is seen, however old the pool is, and goes on', async () => {
    using scratch = new Scratch('purge');
    const pool = await openTestPool(scratch, { undeleteSeconds: day });
    const { id } = await pool.create(volumeSpec('kept'));
    await pool.remove(id);
    await pool.close();
    const mark = scratch.join('pool/trash', readdirSync(scratch.join('pool/trash'))[0] ?? '', 'deleted.json');
    const { deletedAt, purgeAt } = JSON.parse(readFileSync(mark, 'utf8'));
    // A newer driver ran here for ten days, was rolled back, and comes again.
    writeFileSync(mark, JSON.stringify({ deletedAt, purgeAt }));
    const setAge = (days: number) => {
      const text = `${`${days * day * 1000}`.padStart(15)} ${new Date().toISOString()}\n`;
      writeFileSync(scratch.join('pool/age'), text);
    };
    setAge(10);
    const newer = await openTestPool(scratch, { undeleteSeconds: day });
    assert.deepEqual(await trashedIds(newer), [id]);
    await newer.close();
    setAge(10.9);
    const again = await openTestPool(scratch, { undeleteSeconds: day });
    assert.deepEqual(await trashedIds(again), [id]);
    await again.close();
    setAge(11.1);
    const late = await openTestPool(scratch, { undeleteSeconds: day });
    assert.deepEqual(await trashedIds(late), []);
    await late.close();
  });

  test('does not end at once because the clock was behind when the volume was deleted', async () => {
    using scratch = new Scratch('purge');
    const pool = await open(scratch);
    const { id } = await pool.create(volumeSpec('kept'));
    mock.timers.enable({ apis: ['Date'], now: 0 });
    try {
      await pool.remove(id);
    } finally {
      mock.timers.reset();
    }
    await pool.close();
    const again = await open(scratch);
    assert.deepEqual(await trashedIds(again), [id]);
    await again.close();
  });
});

function open(scratch: Scratch): Promise<Catalog> {
  const location = { type: 'file', path: scratch.join('pool.img'), sizeBytes: 2n << 30n } as const;
  return openTestPool(scratch, { location, undeleteSeconds: day });
}

function root(scratch: Scratch): string {
  return scratch.join('data/pools/test');
}

/** Of what there is room for: two volumes of that size do not fit. */
async function threeQuarters(pool: Catalog): Promise<bigint> {
  const { availableBytes } = await pool.capacity();
  return ((availableBytes * 3n) / 4n / 4096n) * 4096n;
}

async function makeAndRemove(pool: Catalog, name: string, sizeBytes: bigint) {
  const record = await pool.create(volumeSpec(name, { ...thickBlock, sizeBytes }));
  await pool.remove(record.id);
  return record;
}

async function trashedIds(pool: Catalog): Promise<VolumeId[]> {
  return (await pool.trash()).map(({ record }) => record.id);
}

/** The directory of a deleted volume. */
function trashed(scratch: Scratch, id: VolumeId): string {
  const found = readdirSync(`${root(scratch)}/trash`).find((name) => name.startsWith(id));
  assert.ok(found !== undefined, `${id} is not in the trash`);
  return found;
}
