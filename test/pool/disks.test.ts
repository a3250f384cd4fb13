import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import { attachDevice } from '../../src/pool/attached-device.ts';
import { listForPools } from '../../src/pool/kinds/disk/list.ts';
import { FailedPrecondition, NotFound, OutOfRange, ResourceExhausted, Unavailable } from '../../src/volume/errors.ts';
import { fileOf, loopDisk, matchOf, openTestDisks, pull } from '../support/disk-pool.ts';
import { eventually } from '../support/eventually.ts';
import { volumeSpec } from '../support/image-pool.ts';
import { withMounted } from '../support/mounted-volume.ts';
import { Scratch } from '../support/scratch.ts';
import { testSettings } from '../support/test-pool.ts';

const mebibyte = 1n << 20n;
const block = { content: { type: 'block' }, sizeBytes: 32n * mebibyte } as const;

/** A pool of these disks alone. */
function openOver(scratch: Scratch, paths: readonly string[]) {
  return openTestDisks(scratch, { match: matchOf(paths) });
}

describe('which disks are taken', () => {
  test('none that holds anything, whatever it is; holdfast disks says why', async () => {
    using scratch = new Scratch('disks');
    const names = ['partitioned', 'formatted', 'unknown', 'mounted', 'small', 'blank'] as const;
    const paths = Object.fromEntries(names.map((name) => [name, loopDisk(scratch, name, name === 'small' ? 8 : 64)]));
    writeFileSync(paths['partitioned'] ?? '', masterBootRecord());
    execFileSync('mkfs.ext4', ['-q', paths['formatted'] ?? '']);
    execFileSync('dd', ['if=/dev/urandom', `of=${paths['unknown']}`, 'bs=512', 'count=1', 'seek=77', 'status=none']);
    execFileSync('mkfs.ext4', ['-q', paths['mounted'] ?? '']);
    execFileSync('mkdir', [scratch.join('mnt')]);
    execFileSync('mount', [paths['mounted'] ?? '', scratch.join('mnt')]);
    const before = readFileSync(fileOf(scratch, 'unknown'));

    const own = { match: matchOf(Object.values(paths)), wipe: 'zero' } as const;
    const settings = { ...testSettings(scratch), sickAfterMs: 1000, keyFile: undefined, labels: {}, own };
    const sights = await listForPools([settings], new DiskQueue('disks', 4));
    const uses = new Map(sights.map(({ devicePath, use }) => [devicePath, use]));
    const said = Object.fromEntries(names.map((name) => [name, uses.get(paths[name] ?? '')]));
    assert.deepEqual(said, {
      partitioned: 'no: it has a partition table (dos)',
      formatted: 'no: it holds ext4',
      unknown: 'no: it holds data of an unknown kind',
      mounted: 'no: it holds ext4',
      small: 'no: it has less than 16Mi',
      blank: 'blank: may be taken',
    });

    const pool = await openOver(scratch, Object.values(paths));
    await pool.create(volumeSpec('first', block));
    await assert.rejects(pool.create(volumeSpec('second', block)), ResourceExhausted);
    await pool.close();
    assert.ok(readFileSync(fileOf(scratch, 'unknown')).equals(before));
    execFileSync('e2fsck', ['-fn', paths['formatted'] ?? ''], { stdio: 'ignore' });
  });

  test('CV05 GC04: the smallest that fits; the capacity is the largest that is free; a limit holds', async () => {
    using scratch = new Scratch('disks');
    const paths = [loopDisk(scratch, 'large', 256), loopDisk(scratch, 'small', 64), loopDisk(scratch, 'middle', 128)];
    const pool = await openOver(scratch, paths);
    assert.equal((await pool.capacity()).availableBytes, 253n * mebibyte);
    const limited = volumeSpec('limited', { ...block, sizeBytes: 100n * mebibyte, limitBytes: 110n * mebibyte });
    await assert.rejects(pool.create(limited), ResourceExhausted);
    assert.equal((await pool.create(volumeSpec('a', block))).sizeBytes, 61n * mebibyte);
    assert.equal((await pool.create(volumeSpec('b', block))).sizeBytes, 125n * mebibyte);
    assert.equal((await pool.create(volumeSpec('c', block))).sizeBytes, 253n * mebibyte);
    assert.equal((await pool.capacity()).availableBytes, 0n);
    await assert.rejects(pool.create(volumeSpec('d', block)), ResourceExhausted);
    await assert.rejects(pool.grow(volumeSpec('a').id, 62n * mebibyte), OutOfRange);
    await pool.close();
  });

  test('K02: eight who ask at once for three disks get one each, and no two the same', async () => {
    using scratch = new Scratch('disks');
    const pool = await openOver(
      scratch,
      ['a', 'b', 'c'].map((name) => loopDisk(scratch, name, 64)),
    );
    const asked = Array.from({ length: 8 }, (_, index) => pool.create(volumeSpec(`v${index}`, block)));
    const made = (await Promise.allSettled(asked)).filter(({ status }) => status === 'fulfilled');
    assert.equal(made.length, 3);
    assert.equal((await pool.list(undefined, undefined)).length, 3);
    await pool.close();
  });

  test('disks with sectors of 4096 bytes', async () => {
    using scratch = new Scratch('disks');
    const pool = await openOver(scratch, [loopDisk(scratch, 'native', 64, 4096)]);
    const record = await pool.create(volumeSpec('v', { sizeBytes: 32n * mebibyte }));
    assert.equal(record.blockSizeBytes, 4096);
    await withMounted(pool, record.id, scratch, (path) => writeFileSync(`${path}/file`, 'here'));
    await pool.close();
    const again = await openOver(scratch, [loopDisk(scratch, 'native', 64, 4096)]);
    await withMounted(again, record.id, scratch, (path) => assert.equal(readFileSync(`${path}/file`, 'utf8'), 'here'));
    await again.close();
  });
});

describe('a disk of a volume', () => {
  test('what a volume held, the next one does not read', async () => {
    using scratch = new Scratch('disks');
    const pool = await openOver(scratch, [loopDisk(scratch, 'only', 64)]);
    for (const name of ['first', 'second', 'third']) {
      const { id } = await eventuallyMade(() => pool.create(volumeSpec(name, block)));
      const attachment = await attachDevice(pool, id, { persistent: true });
      const bytes = readFileSync(attachment.devicePath);
      assert.ok(bytes.every((byte) => byte === 0));
      writeFileSync(attachment.devicePath, Buffer.alloc(bytes.length, 0x5a));
      execFileSync('sync', [attachment.devicePath]);
      await attachment.release();
      await pool.detach(attachment);
      await pool.remove(id);
    }
    await pool.close();
  });

  test('that is pulled is missed by its own volume alone, also after a restart, and known when it comes back', async () => {
    using scratch = new Scratch('disks');
    const first = loopDisk(scratch, 'first', 64);
    const second = loopDisk(scratch, 'second', 96);
    let pool = await openOver(scratch, [first, second]);
    const [lost, other] = [await pool.create(volumeSpec('lost', block)), await pool.create(volumeSpec('other', block))];
    pull(first);
    await pool.checkHealth(pool.queue);
    await eventually(async () => assert.match((await pool.condition(lost.id)).message, /^Its disk is not here/));
    assert.equal((await pool.condition(other.id)).abnormal, false);
    await assert.rejects(pool.attach(lost.id, { persistent: false }), FailedPrecondition);
    await pool.close();

    pool = await openOver(scratch, [second]);
    assert.deepEqual((await pool.find(lost.id))?.sizeBytes, lost.sizeBytes);
    assert.equal((await pool.condition(lost.id)).abnormal, true);
    await pool.close();

    const back = loopDisk(scratch, 'first', 64);
    pool = await openOver(scratch, [back, second]);
    assert.deepEqual(await pool.find(lost.id), lost);
    assert.equal((await pool.condition(lost.id)).abnormal, false);
    await (await pool.attach(lost.id, { persistent: false })).release();
    await pool.close();
  });

  test('that was deleted while its disk was away goes when that comes back', async () => {
    using scratch = new Scratch('disks');
    const first = loopDisk(scratch, 'first', 64);
    let pool = await openOver(scratch, [first]);
    const { id } = await pool.create(volumeSpec('lost', block));
    pull(first);
    await pool.checkHealth(pool.queue);
    await eventually(async () => assert.equal((await pool.condition(id)).abnormal, true));
    await pool.remove(id);
    assert.equal(await pool.find(id), undefined);
    await pool.close();
    pool = await openOver(scratch, [loopDisk(scratch, 'first', 64)]);
    assert.equal(await pool.find(id), undefined);
    await eventually(async () => assert.equal((await pool.capacity()).availableBytes, 61n * mebibyte));
    await pool.close();
  });

  test('another disk under its name is not taken for it', async () => {
    using scratch = new Scratch('disks');
    const path = loopDisk(scratch, 'first', 64);
    const pool = await openOver(scratch, [path]);
    const { id } = await pool.create(volumeSpec('v', block));
    pull(path);
    const other = loopDisk(scratch, 'other', 64, 512, path);
    assert.equal(other, path);
    await assert.rejects(pool.attach(id, { persistent: true }), Unavailable);
    assert.ok(readFileSync(fileOf(scratch, 'other')).every((byte) => byte === 0));
    await pool.close();
  });

  test('that has a copy is not used, and neither is the copy', async () => {
    using scratch = new Scratch('disks');
    const first = loopDisk(scratch, 'first', 64);
    const pool = await openOver(scratch, [first]);
    const { id } = await pool.create(volumeSpec('v', block));
    await pool.close();
    copyFileSync(fileOf(scratch, 'first'), fileOf(scratch, 'copy'));
    const copy = loopDisk(scratch, 'copy', 64);
    const again = await openOver(scratch, [first, copy]);
    assert.match((await again.condition(id)).message, /^Another disk has the same label/);
    await assert.rejects(again.attach(id, { persistent: true }), /have the same label: one is a copy of the other/);
    await assert.rejects(again.create(volumeSpec('w', block)), ResourceExhausted);
    await again.close();
    pull(copy);
    const alone = await openOver(scratch, [first]);
    assert.equal((await alone.condition(id)).abnormal, false);
    await alone.close();
  });

  test('of another pool is left alone', async () => {
    using scratch = new Scratch('disks');
    const first = loopDisk(scratch, 'first', 64);
    const pool = await openOver(scratch, [first]);
    const { id } = await pool.create(volumeSpec('v', block));
    await pool.close();
    const others = await openTestDisks(scratch, { name: 'others', match: matchOf([first]) });
    assert.deepEqual(await others.list(undefined, undefined), []);
    await assert.rejects(others.create(volumeSpec('w', block)), ResourceExhausted);
    await assert.rejects(others.attach(id, { persistent: true }), NotFound);
    await others.close();
  });
});

/** With one partition. */
function masterBootRecord(): Buffer {
  const sector = Buffer.alloc(512);
  sector.set([0x00, 0x00, 0x02, 0x00, 0x83, 0xff, 0xff, 0xff], 446);
  sector.writeUInt32LE(2048, 454);
  sector.writeUInt32LE(16384, 458);
  sector.writeUInt16LE(0xaa55, 510);
  return sector;
}

/** Its disk is wiped behind the answer. */
async function eventuallyMade<T>(make: () => Promise<T>): Promise<T> {
  let made: T | undefined;
  await eventually(async () => {
    made = await make();
  });
  if (made === undefined) throw new Error('nothing was made');
  return made;
}
