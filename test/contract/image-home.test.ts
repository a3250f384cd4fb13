import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  opendirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { describe, test } from 'node:test';
import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import { canReflink } from '../../src/pool/location/reflink.ts';
import { DataLoss, FailedPrecondition } from '../../src/volume/errors.ts';
import { startNamespace } from '../support/child.ts';
import { attachDisk, digestOf, sparseFile } from '../support/disk.ts';
import { assertNothingLeft } from '../support/driver.ts';
import { eventually, soon } from '../support/eventually.ts';
import { Frozen } from '../support/frozen.ts';
import { openTestPool, volumeSpec } from '../support/image-pool.ts';
import { Scratch } from '../support/scratch.ts';

const gibibyte = 1n << 30n;
const queue = new DiskQueue('test', 4);

function auto(sizeBytes = 2n * gibibyte) {
  return { location: { type: 'auto', sizeBytes } } as const;
}

describe('the location of an image pool', () => {
  test('with nothing configured, volumes can share blocks whatever the host filesystem is', async () => {
    using scratch = new Scratch('location');
    const pool = await openTestPool(scratch, auto());
    assert.equal(await canReflink(queue, scratch.join('data/pools/test')), true);
    assert.equal(existsSync(scratch.join('data/pools/test.img')), !(await canReflink(queue, scratch.path)));
    await pool.close();
    await assertNothingLeft(scratch);
  });

  test('a sparse backing file takes little, and gives back what is deleted', async () => {
    using scratch = new Scratch('location');
    const path = scratch.join('pool.img');
    const pool = await openTestPool(scratch, { location: { type: 'file', path, sizeBytes: 4n * gibibyte } });
    const allocated = () => statSync(path).blocks * 512;
    const empty = allocated();
    const { id } = await pool.create(volumeSpec('data', { content: { type: 'block' } }));
    writeFileSync(scratch.join('data/pools/test/volumes', id, 'data'), Buffer.alloc(64 << 20, 1));
    execFileSync('sync', ['--file-system', scratch.join('data/pools/test')]);
    assert.ok(allocated() - empty > 60 << 20);
    await pool.remove(id);
    await pool.close();
    // The kernel passes discards on behind our back.
    await eventually(() =>
      assert.ok(allocated() - empty < 16 << 20, `${allocated() - empty} bytes are still allocated`),
    );
  });

  test('a larger size in the configuration makes a backing file larger, a smaller one leaves it', async () => {
    using scratch = new Scratch('location');
    const total = async (sizeBytes: bigint) => {
      const pool = await openTestPool(scratch, auto(sizeBytes));
      const { totalBytes } = await pool.capacity();
      await pool.close();
      return totalBytes;
    };
    const before = await total(2n * gibibyte);
    const after = await total(3n * gibibyte);
    assert.ok(after - before > 900n << 20n);
    // The last is less than any new one may have.
    for (const smaller of [gibibyte, 16n << 20n]) {
      const difference = (await total(smaller)) - after;
      assert.ok(difference < 1n << 20n && difference > -1n << 20n);
    }
  });

  test('ST09: a disk that holds anything at all is not formatted and not changed', async () => {
    using scratch = new Scratch('location');
    for (const make of [
      (path: string) => execFileSync('mkfs.ext4', ['-q', path]),
      (path: string) => execFileSync('mkfs.btrfs', ['-q', path]),
      (path: string) => execFileSync('mkswap', [path], { stdio: 'ignore' }),
      (path: string) => writeFileSync(path, masterBootRecord(), { flag: 'r+' }),
      (path: string) => writeFileSync(path, Buffer.from('a database'), { flag: 'r+' }),
    ]) {
      const path = scratch.join('disk');
      rmSync(path, { force: true });
      writeFileSync(path, '');
      truncateSync(path, 120 << 20);
      make(path);
      const before = digestOf(path);
      const location = { type: 'file', path, sizeBytes: 120n << 20n } as const;
      await assert.rejects(openTestPool(scratch, { location }), (error) => {
        assert.ok(error instanceof FailedPrecondition);
        assert.match(error.message, /not blank.*wipefs/s);
        return true;
      });
      assert.equal(digestOf(path), before);
    }
  });

  test('a directory with somebody else in it is refused', async () => {
    using scratch = new Scratch('location');
    mkdirSync(scratch.join('pool'));
    writeFileSync(scratch.join('pool/letters.txt'), 'dear');
    await assert.rejects(openTestPool(scratch), /not empty and not a pool.*letters\.txt/);
  });

  test('a missing parent is not made: its disk may not be mounted', async () => {
    using scratch = new Scratch('location');
    const location = { type: 'directory', path: scratch.join('mnt/disk/pool') } as const;
    await assert.rejects(openTestPool(scratch, { location }), /Is its disk mounted/);
  });

  test('an empty location where there was a pool is refused: a new pool would hide every volume', async () => {
    using scratch = new Scratch('location');
    await (await openTestPool(scratch)).close();
    rmSync(scratch.join('pool'), { recursive: true });
    await assert.rejects(openTestPool(scratch), /Is its disk mounted/);
    rmSync(scratch.join('data/pools/test.id'));
    await (await openTestPool(scratch)).close();
  });

  test("another pool's disk in this pool's place is refused", async () => {
    using scratch = new Scratch('location');
    await (await openTestPool(scratch)).close();
    const path = scratch.join('pool/pool.json');
    const other = readFileSync(path, 'utf8').replace(/"id": "[^"]+"/, '"id": "01020304-0506-4708-890a-0b0c0d0e0f10"');
    writeFileSync(path, other);
    await assert.rejects(openTestPool(scratch), /Is the right disk mounted/);
  });

  test('a pool of a newer format is left alone', async () => {
    using scratch = new Scratch('location');
    await (await openTestPool(scratch)).close();
    const path = scratch.join('pool/pool.json');
    writeFileSync(path, readFileSync(path, 'utf8').replace('"format": 1', '"format": 2'));
    await assert.rejects(openTestPool(scratch), DataLoss);
  });

  test('the second driver on a pool is told who has it, and gets it when the first lets go', async () => {
    using scratch = new Scratch('location');
    const path = attachDisk(sparseFile(scratch.join('disk.img'), 1024));
    const disk = { location: { type: 'device', path }, name: 'disk' } as const;
    for (const options of [{}, { ...auto(), name: 'auto' }, disk]) {
      const first = await openTestPool(scratch, options);
      await assert.rejects(openTestPool(scratch, options), (error) => {
        assert.ok(error instanceof FailedPrecondition);
        assert.match(error.message, new RegExp(`held by process ${process.pid} \\(.*node`));
        return true;
      });
      const second = openTestPool(scratch, { ...options, lockTimeoutMs: 30_000 });
      await first.close();
      await (await second).close();
    }
  });

  test("what somebody else mounted in the pool's place is refused, and nothing is written to it", async () => {
    using scratch = new Scratch('location');
    const root = scratch.join('data/pools/test');
    mkdirSync(root, { recursive: true });
    const image = sparseFile(scratch.join('foreign.img'), 64);
    execFileSync('mkfs.ext4', ['-q', image]);
    execFileSync('mount', ['-o', 'loop', image, root]);
    const before = readdirSync(root);
    execFileSync('fsfreeze', ['--freeze', root]);
    await assert.rejects(openTestPool(scratch, auto()), /something else is mounted/);
    // Thawed by nobody else.
    execFileSync('fsfreeze', ['--unfreeze', root]);
    assert.deepEqual(readdirSync(root), before);
  });

  test('T04: a pool whose mount lives on in another mount namespace is not attached twice', async () => {
    using scratch = new Scratch('location');
    const pool = await openTestPool(scratch, auto());
    const loops = scratch.loops();
    await using _other = await startNamespace(scratch.path);
    await pool.close();
    assert.deepEqual(scratch.mounts(), []);
    assert.deepEqual(scratch.loops(), loops);
    const again = await openTestPool(scratch, auto());
    assert.deepEqual(scratch.loops(), loops);
    await again.create(volumeSpec('works'));
    await again.close();
  });
});

/** One Linux partition from sector 2048 on. */
function masterBootRecord(): Buffer {
  const sector = Buffer.alloc(512);
  sector[450] = 0x83;
  sector.writeUInt32LE(2048, 454);
  sector.writeUInt32LE(100_000, 458);
  sector.writeUInt16LE(0xaa55, 510);
  return sector;
}

/** A pool in a file with a volume, which no driver has open any more, and which is mounted. */
async function leftMounted(scratch: Scratch) {
  const path = scratch.join('pool.img');
  const location = { location: { type: 'file', path, sizeBytes: 2n * gibibyte } } as const;
  const root = scratch.join('data/pools/test');
  const first = await openTestPool(scratch, location);
  const { id } = await first.create(volumeSpec('data', { content: { type: 'block' } }));
  // In use, it stays mounted.
  using _user = opendirSync(root);
  await first.close();
  return { id, location, root };
}

describe('a hurt image pool', () => {
  test('a pool that a driver left frozen when it was killed is thawed', async () => {
    using scratch = new Scratch('location');
    const { id, location, root } = await leftMounted(scratch);
    using _frozen = await Frozen.byDriver(scratch, 'pool', root);
    const second = await soon(openTestPool(scratch, location), 'the pool is not opened: has it been left frozen?');
    await second.remove(id);
    await second.close();
    await assertNothingLeft(scratch);
  });

  test('H36: so is one that a driver before the notes of freezes left frozen', async () => {
    using scratch = new Scratch('location');
    const { location, root } = await leftMounted(scratch);
    rmSync(scratch.join('data/frozen/.noted.test'));
    using frozen = Frozen.byHook(root);
    const second = await soon(openTestPool(scratch, location), 'the pool is not opened: has it been left frozen?');
    frozen.assertThawed();
    await second.close();
    await assertNothingLeft(scratch);
  });

  test('H7: the same of one that is mounted elsewhere only, as by a driver in another container', async () => {
    using scratch = new Scratch('location');
    const path = scratch.join('pool.img');
    const location = { location: { type: 'file', path, sizeBytes: 2n * gibibyte } } as const;
    const root = scratch.join('data/pools/test');
    const elsewhere = scratch.join('elsewhere');
    const first = await openTestPool(scratch, location);
    await first.create(volumeSpec('data', { content: { type: 'block' } }));
    mkdirSync(elsewhere);
    execFileSync('mount', ['--bind', root, elsewhere]);
    try {
      await first.close();
      using frozen = await Frozen.byDriver(scratch, 'pool', elsewhere);
      const second = await soon(openTestPool(scratch, location), 'the pool is not opened: has it been left frozen?');
      frozen.assertThawed();
      await second.close();
    } finally {
      execFileSync('umount', [elsewhere]);
    }
    await assertNothingLeft(scratch);
  });

  test('GV04 DV08: a damaged record hurts its volume only, and its data is left as it is', async () => {
    using scratch = new Scratch('hurt');
    const pool = await openTestPool(scratch);
    const hurt = await pool.create(volumeSpec('hurt'));
    const well = await pool.create(volumeSpec('well'));
    await pool.close();
    const directory = scratch.join('pool/volumes', hurt.id);
    truncateSync(`${directory}/volume.json`, 30);
    const again = await openTestPool(scratch);
    await assert.rejects(again.find(hurt.id), DataLoss);
    await assert.rejects(again.remove(hurt.id), DataLoss);
    await assert.rejects(again.create(volumeSpec('hurt')), DataLoss);
    assert.equal((await again.find(well.id))?.name, 'well');
    assert.deepEqual(
      (await again.list(undefined, undefined)).map(({ id }) => id),
      [well.id],
    );
    await again.close();
    assert.equal(statSync(`${directory}/data`).size, 64 << 20);
  });

  test('DV05 GV04: a missing or short image is reported, not used, and can be removed', async () => {
    using scratch = new Scratch('hurt');
    const pool = await openTestPool(scratch);
    const missing = await pool.create(volumeSpec('missing'));
    const short = await pool.create(volumeSpec('short'));
    rmSync(scratch.join('pool/volumes', missing.id, 'data'));
    truncateSync(scratch.join('pool/volumes', short.id, 'data'), 1 << 20);
    for (const { id } of [missing, short]) {
      assert.equal((await pool.condition(id)).abnormal, true);
      await assert.rejects(pool.attach(id, { persistent: false }), DataLoss);
    }
    assert.deepEqual(scratch.loops(), []);
    rmSync(scratch.join('pool/volumes', missing.id), { recursive: true });
    for (const { id } of [missing, short]) {
      await pool.remove(id);
      assert.equal(await pool.find(id), undefined);
    }
    await pool.close();
  });

  test('T04 CV27: an expansion that was cut short before its record was written is finished at the start', async () => {
    using scratch = new Scratch('hurt');
    const pool = await openTestPool(scratch);
    const { id, sizeBytes } = await pool.create(volumeSpec('grows'));
    await pool.close();
    truncateSync(scratch.join('pool/volumes', id, 'data'), Number(sizeBytes) + (16 << 20));
    const again = await openTestPool(scratch);
    assert.equal((await again.find(id))?.sizeBytes, sizeBytes + (16n << 20n));
    await again.close();
  });

  test('an image that is larger than its record says is never cut off, nor are its clones', async () => {
    using scratch = new Scratch('hurt');
    const pool = await openTestPool(scratch, auto());
    const { id, sizeBytes } = await pool.create(volumeSpec('large'));
    const image = (of: string) => scratch.join('data/pools/test/volumes', of, 'data');
    const largerBytes = Number(sizeBytes) + (32 << 20);
    truncateSync(image(id), largerBytes);
    await pool.modify(id, { provisioning: 'thick' });
    await pool.grow(id, sizeBytes + (16n << 20n));
    assert.equal(statSync(image(id)).size, largerBytes);
    const clone = await pool.create(volumeSpec('clone', { sizeBytes: sizeBytes + (16n << 20n) }), {
      type: 'volume',
      id,
    });
    assert.equal(statSync(image(clone.id)).size, largerBytes);
    await pool.close();
  });

  test('T04: what a killed driver left in tmp/ and trash/ goes at the start', async () => {
    using scratch = new Scratch('hurt');
    await (await openTestPool(scratch)).close();
    for (const place of ['tmp', 'trash']) {
      mkdirSync(scratch.join('pool', place, 'vol-left.0123'));
      writeFileSync(scratch.join('pool', place, 'vol-left.0123/data'), 'half');
    }
    // Half a copy: the retry of its call goes on with it.
    const copy = scratch.join('pool/tmp', `${volumeSpec('copy').id}.copy`);
    mkdirSync(copy);
    writeFileSync(`${copy}/data`, 'half');
    const pool = await openTestPool(scratch);
    await pool.close();
    for (const place of ['tmp', 'trash']) assert.equal(existsSync(scratch.join('pool', place, 'vol-left.0123')), false);
    assert.equal(readFileSync(`${copy}/data`, 'utf8'), 'half');
  });
});
