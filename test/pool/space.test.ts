import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { closeSync, fsyncSync, mkdirSync, openSync, statSync, truncateSync, writeFileSync, writeSync } from 'node:fs';
import { describe, test } from 'node:test';
import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import { attachDevice } from '../../src/pool/attached-device.ts';
import type { Pool } from '../../src/pool/pool.ts';
import { ResourceExhausted } from '../../src/volume/errors.ts';
import { snapshotIdFor, type VolumeId } from '../../src/volume/id.ts';
import { BeforeStep } from '../support/before-step.ts';
import { eventually } from '../support/eventually.ts';
import { HeldSync } from '../support/held-sync.ts';
import { openTestPool, volumeSpec } from '../support/image-pool.ts';
import { Scratch } from '../support/scratch.ts';

const mebibyte = 1n << 20n;
const block = { content: { type: 'block' } } as const;

/** XFS in a file of 512 MiB. */
function sharing(scratch: Scratch, options: { readonly overcommit?: number } = {}) {
  const location = { type: 'file', path: scratch.join('pool.img'), sizeBytes: 512n * mebibyte } as const;
  return openTestPool(scratch, { location, undeleteSeconds: 3600, ...options });
}

/** An ext4 of 512 MiB, where snapshots are copies. */
function copying(scratch: Scratch, options: { readonly overcommit?: number } = {}) {
  const disk = scratch.join('disk');
  mkdirSync(disk);
  execFileSync('truncate', ['--size=512M', `${disk}.img`]);
  execFileSync('mkfs.ext4', ['-q', `${disk}.img`]);
  execFileSync('mount', ['-o', 'loop', `${disk}.img`, disk]);
  return openTestPool(scratch, {
    location: { type: 'directory', path: `${disk}/pool` },
    undeleteSeconds: 3600,
    ...options,
  });
}

async function write(pool: Pool, id: VolumeId, megabytes: number, how?: 'direct'): Promise<void> {
  const attached = await attachDevice(pool, id, { persistent: true });
  const { devicePath, release } = attached;
  await release();
  if (how === undefined) writeFileSync(devicePath, Buffer.alloc(megabytes << 20, 1), { flag: 'r+', flush: true });
  // Past the cache: of a write that found no room a later sync does not always tell.
  else {
    const what = ['if=/dev/zero', `of=${devicePath}`, 'bs=1M', `count=${megabytes}`, 'oflag=direct'];
    execFileSync('dd', what, { stdio: 'pipe' });
  }
  await pool.detach(attached);
}

/** A block in each 128 KiB of 128 MiB. */
async function writeHereAndThere(pool: Pool, id: VolumeId): Promise<void> {
  const attached = await attachDevice(pool, id, { persistent: true });
  const { devicePath, release } = attached;
  await release();
  const file = openSync(devicePath, 'r+');
  for (let offset = 0; offset < 128 << 20; offset += 128 << 10) {
    writeSync(file, Buffer.alloc(4096, 2), 0, 4096, offset);
  }
  fsyncSync(file);
  closeSync(file);
  await pool.detach(attached);
}

async function snapshot(pool: Pool, name: string, sourceId: VolumeId): Promise<void> {
  await pool.takeSnapshots([{ id: snapshotIdFor('node', name), name, sourceId, parameters: {} }]);
}

const available = async (pool: Pool) => (await pool.capacity()).availableBytes;

describe('GC04 CS10: space that could be promised twice', () => {
  test('a second snapshot asks for what its source has written since; of one that nobody wrote to it asks nothing', async () => {
    using scratch = new Scratch('space');
    const pool = await sharing(scratch);
    const { id } = await pool.create(volumeSpec('v', { ...block, sizeBytes: 160n * mebibyte }));
    await write(pool, id, 160, 'direct');
    const unshared = await available(pool);
    await snapshot(pool, 'first', id);
    const before = await available(pool);
    assert.ok(unshared - before > 159n * mebibyte, `${unshared - before}`);
    for (let index = 0; index < 10; index++) await snapshot(pool, `same ${index}`, id);
    assert.ok(before - (await available(pool)) < mebibyte);
    await write(pool, id, 160, 'direct');
    await assert.rejects(snapshot(pool, 'second', id), ResourceExhausted);
    await write(pool, id, 160, 'direct');
    await pool.close();
  });

  test('each snapshot in a pool that copies asks for what it takes', async () => {
    using scratch = new Scratch('space');
    const pool = await copying(scratch);
    const { id } = await pool.create(volumeSpec('v', { ...block, sizeBytes: 120n * mebibyte }));
    await write(pool, id, 120, 'direct');
    const neighbour = await pool.create(volumeSpec('w', { ...block, sizeBytes: 120n * mebibyte }));
    await snapshot(pool, 'first', id);
    await assert.rejects(snapshot(pool, 'second', id), ResourceExhausted);
    await write(pool, neighbour.id, 120, 'direct');
    await pool.close();
  });

  test('a volume that comes back from the trash asks for all that its snapshots share', async () => {
    using scratch = new Scratch('space');
    const pool = await sharing(scratch);
    const { id } = await pool.create(volumeSpec('v', { ...block, sizeBytes: 160n * mebibyte }));
    await write(pool, id, 160, 'direct');
    await snapshot(pool, 'kept', id);
    await pool.remove(id);
    const before = await available(pool);
    // It gives nothing back, so it is not purged for others, and what it will need is promised to none but itself.
    const rest = await pool.create(
      volumeSpec('w', { ...block, sizeBytes: before - (before % 4096n) - 100n * mebibyte }),
    );
    assert.equal((await pool.trash()).length, 1);
    await assert.rejects(pool.restore(id), ResourceExhausted);
    await pool.remove(rest.id);
    await pool.purge(rest.id);
    await pool.restore(id);
    assert.ok(before - (await available(pool)) > 150n * mebibyte);
    await pool.close();
  });

  test('blocks shared in a chain count although the record between its ends is gone, also after a restart', async () => {
    using scratch = new Scratch('space');
    let pool = await sharing(scratch);
    const source = await pool.create(volumeSpec('v', { ...block, sizeBytes: 100n * mebibyte, undeleteSeconds: 0 }));
    await write(pool, source.id, 100, 'direct');
    await snapshot(pool, 's', source.id);
    const clone = await pool.create(volumeSpec('w', { ...block, sizeBytes: 100n * mebibyte }), {
      type: 'snapshot',
      id: snapshotIdFor('node', 's'),
    });
    await pool.removeSnapshot(snapshotIdFor('node', 's'));
    await pool.close();
    pool = await sharing(scratch);
    const shared = await available(pool);
    await pool.remove(source.id);
    await pool.purge(source.id);
    // The source's promise is free, and the clone has all blocks for itself.
    const gained = (await available(pool)) - shared;
    assert.ok(gained > 195n * mebibyte && gained < 205n * mebibyte, `${gained}`);
    await write(pool, clone.id, 100, 'direct');
    await pool.close();
  });

  test('what XFS has taken ahead for a volume and gives back later is promised to nobody', async (t) => {
    using scratch = new Scratch('space');
    const pool = await sharing(scratch);
    const { id } = await pool.create(volumeSpec('v', { ...block, sizeBytes: 128n * mebibyte }));
    await write(pool, id, 128, 'direct');
    await snapshot(pool, 's', id);
    await writeHereAndThere(pool, id);
    const { now } = performance;
    // Long enough for it to be seen that nobody uses the volume any more.
    t.mock.method(performance, 'now', () => now.call(performance) + 60_000);
    await available(pool);
    // What the kernel does by itself some minutes later.
    execFileSync('sync', ['--file-system', scratch.join('data/pools/test')]);
    execFileSync('xfs_spaceman', ['-c', 'prealloc -s', scratch.join('data/pools/test')]);
    const rest = await available(pool);
    const other = await pool.create(volumeSpec('w', { ...block, sizeBytes: rest - (rest % mebibyte) }));
    await write(pool, other.id, Number(other.sizeBytes / mebibyte), 'direct');
    await write(pool, id, 128, 'direct');
    await pool.close();
  });

  test('two that need room at once take no more from the trash than both need', async () => {
    using scratch = new Scratch('space');
    const pool = await sharing(scratch);
    const empty = await available(pool);
    const sizeBytes = (empty / 4n / 4096n) * 4096n - mebibyte;
    const thick = { ...block, sizeBytes, provisioning: 'thick' } as const;
    for (const name of ['a', 'b', 'c', 'd']) {
      const { id } = await pool.create(volumeSpec(name, thick));
      await pool.remove(id);
    }
    assert.ok(empty - (await available(pool)) < 8n * mebibyte);
    await Promise.all(['e', 'f'].map((name) => pool.create(volumeSpec(name, thick))));
    assert.equal((await pool.trash()).length, 2);
    await pool.close();
  });

  test('a volume is made thick only of blocks that are there, and what a refused call took is free again', async () => {
    using scratch = new Scratch('space');
    const pool = await copying(scratch, { overcommit: 3 });
    const { id } = await pool.create(volumeSpec('v', { ...block, sizeBytes: 600n * mebibyte }));
    const image = scratch.join('disk/pool/volumes', id, 'data');
    const before = statSync(image).blocks;
    await assert.rejects(pool.modify(id, { provisioning: 'thick' }), ResourceExhausted);
    assert.equal(statSync(image).blocks, before);
    assert.equal((await pool.find(id))?.provisioning, 'thin');
    await pool.close();
  });
});

describe('GC04 CV20: what is free only in a moment, or only on paper', () => {
  test('what a call under way has taken already counts once', async () => {
    using scratch = new Scratch('space');
    const pool = await sharing(scratch);
    const before = await available(pool);
    const thick = { ...block, sizeBytes: 100n * mebibyte, provisioning: 'thick' } as const;
    let creating: Promise<unknown>;
    {
      using held = new HeldSync(scratch.join('data/pools/test/volumes'));
      creating = pool.create(volumeSpec('v', thick));
      await held.reached;
      const taken = before - (await available(pool));
      assert.ok(taken > 99n * mebibyte && taken < 110n * mebibyte, `${taken}`);
    }
    await creating;
    await pool.close();
  });

  test('what is being unlinked is waited for before a request is refused', async () => {
    using scratch = new Scratch('space');
    const pool = await sharing(scratch);
    const spec = { ...block, undeleteSeconds: 0 } as const;
    const large = { ...spec, sizeBytes: 300n * mebibyte, provisioning: 'thick' } as const;
    const names = Array.from({ length: 40 }, (_, index) => `v${index}`);
    for (const name of names) await pool.create(volumeSpec(name, { ...spec, sizeBytes: mebibyte }));
    const { id } = await pool.create(volumeSpec('large', large));
    await Promise.all([...names.map((name) => pool.remove(volumeSpec(name).id)), pool.remove(id)]);
    await pool.create(volumeSpec('next', large));
    await pool.close();
  });

  for (const how of ['is made thick', 'is thick from the start']) {
    test(`a volume ${how} at the cost of what lies in the trash, whatever may be promised`, async () => {
      using scratch = new Scratch('space');
      const pool = await copying(scratch, { overcommit: 3 });
      const thick = { ...block, provisioning: 'thick' } as const;
      const old = await pool.create(volumeSpec('old', { ...thick, sizeBytes: 200n * mebibyte }));
      await pool.remove(old.id);
      const spec = volumeSpec('v', { ...(how === 'is made thick' ? block : thick), sizeBytes: 300n * mebibyte });
      const { id } = await pool.create(spec);
      assert.equal((await pool.trash()).length, how === 'is made thick' ? 1 : 0);
      await pool.modify(id, { provisioning: 'thick' });
      assert.ok(statSync(scratch.join('disk/pool/volumes', id, 'data')).blocks * 512 >= 300 << 20);
      assert.deepEqual(await pool.trash(), []);
      await pool.close();
    });
  }

  test('what a volume has taken to be made thick is free again when somebody else was faster', async () => {
    using scratch = new Scratch('space');
    const pool = await copying(scratch);
    const { id } = await pool.create(volumeSpec('v', { ...block, sizeBytes: 300n * mebibyte }));
    const image = scratch.join('disk/pool/volumes', id, 'data');
    const before = statSync(image).blocks;
    const foreign = ['--length=200M', scratch.join('disk/foreign')];
    using _other = new BeforeStep('modify/data', () => void execFileSync('fallocate', foreign));
    await assert.rejects(pool.modify(id, { provisioning: 'thick' }), ResourceExhausted);
    assert.equal(statSync(image).blocks, before);
    await pool.close();
  });

  test('a disk that its own volumes have filled promises nothing, however much may be promised', async () => {
    using scratch = new Scratch('space');
    const pool = await sharing(scratch, { overcommit: 3 });
    const { id } = await pool.create(volumeSpec('v', { ...block, sizeBytes: 600n * mebibyte }));
    assert.ok((await available(pool)) > 0n);
    await assert.rejects(write(pool, id, 600, 'direct'), /No space left|Input\/output error/);
    const { availableBytes, thickAvailableBytes } = await pool.capacity();
    assert.deepEqual([availableBytes, thickAvailableBytes], [0n, 0n]);
    await assert.rejects(pool.create(volumeSpec('w', { ...block, sizeBytes: mebibyte })), ResourceExhausted);
    await pool.close();
  });
});

describe('what a pool tells of its disk', () => {
  test('its size stays as it is when snapshots take space; a block counts once; snapshots are told', async () => {
    using scratch = new Scratch('space');
    const pool = await sharing(scratch);
    const { id } = await pool.create(volumeSpec('v', { ...block, sizeBytes: 64n * mebibyte }));
    await write(pool, id, 64);
    const before = await pool.usage();
    await snapshot(pool, 's', id);
    await pool.create(volumeSpec('w', { ...block, sizeBytes: 64n * mebibyte }), { type: 'volume', id });
    // Shared blocks are looked for again only a while after the last look, the longer that took.
    await eventually(async () => {
      const shared = await pool.usage();
      assert.ok(shared.capacity.usedBytes - before.capacity.usedBytes < 4n * mebibyte);
      assert.ok(shared.disk.snapshotBytes < mebibyte);
    });
    await write(pool, id, 32);
    await pool.remove(volumeSpec('w').id);
    await pool.purge();
    await eventually(async () => {
      const rewritten = await pool.usage();
      const held = rewritten.disk.snapshotBytes;
      assert.ok(held > 31n * mebibyte && held < 33n * mebibyte, `${held}`);
      const difference = rewritten.capacity.totalBytes - before.capacity.totalBytes;
      assert.ok(difference < 4n * mebibyte && difference > -4n * mebibyte, `${difference}`);
      assert.ok(before.disk.freeBytes - rewritten.disk.freeBytes > 30n * mebibyte);
    });
    await pool.close();
  });
});

/** Counts what goes through it. */
class CountingQueue extends DiskQueue {
  count = 0;

  override run<T>(work: () => Promise<T>, onLate?: (result: T) => void): Promise<T> {
    this.count++;
    return super.run(work, onLate);
  }
}

describe('what it costs to ask', () => {
  test('GetCapacity and a scrape look at no image that nobody uses, however many there are', async () => {
    const counts: number[] = [];
    for (const volumes of [4, 64]) {
      using scratch = new Scratch('space');
      const queue = new CountingQueue('test', 4);
      const pool = await openTestPool(scratch, { queue });
      const ids: VolumeId[] = [];
      for (let index = 0; index < volumes; index++) {
        ids.push((await pool.create(volumeSpec(`v${index}`, { ...block, sizeBytes: mebibyte }))).id);
      }
      const before = await pool.usage();
      // Behind the driver's back: who looked at the images would see it.
      for (const id of ids) truncateSync(scratch.join('pool/volumes', id, 'data'), 0);
      for (const id of ids) writeFileSync(scratch.join('pool/volumes', id, 'data'), Buffer.alloc(1 << 20, 1));
      queue.count = 0;
      await pool.capacity();
      const after = await pool.usage();
      counts.push(queue.count);
      assert.equal(after.capacity.usedBytes, before.capacity.usedBytes);
      await pool.close();
    }
    const [few = 0, many = 0] = counts;
    // What is remembered for a second only may be asked for once more, whatever the number of images.
    assert.ok(Math.abs(many - few) < 10, `${few} and ${many} requests`);
  });
});
