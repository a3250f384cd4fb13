import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { closeSync, fsyncSync, mkdirSync, openSync, statSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import type { Catalog } from '../../src/pool/catalog/catalog.ts';
import { mayLeaveTimes } from '../../src/pool/kinds/image/image-backend.ts';
import { attachDisk, flushesOf, sparseFile } from '../support/disk.ts';
import { openTestPool, volumeSpec } from '../support/image-pool.ts';
import { Scratch } from '../support/scratch.ts';

const rounds = 10;
/** The kernel's clock for times of files has moved on, at 100 ticks a second too (CONFIG_HZ). */
const tickMs = 25;
const watch = { waitsFor: () => () => undefined };

/** Writes one block of a new volume again and again, each time durably, as a database does with its log. */
async function overwrite(pool: Catalog, root: string, disk: string) {
  const { id } = await pool.create(volumeSpec('volume', { content: { type: 'block' } }));
  const created = lastWriteOf(root, id);
  await setTimeout(tickMs);
  const attachment = await pool.attach(id, { persistent: false });
  assert.ok(attachment.kind === 'device');
  const device = openSync(attachment.devicePath, 'r+');
  const write = () => {
    assert.equal(writeSync(device, Buffer.alloc(4096, 1), 0, 4096, 0), 4096);
    fsyncSync(device);
  };
  try {
    // It takes its block on the disk.
    write();
    const before = lastWriteOf(root, id);
    const first = flushesOf(disk);
    for (let round = 0; round < rounds; round++) {
      await setTimeout(tickMs);
      write();
    }
    return {
      id,
      flushes: flushesOf(disk) - first,
      isTouchedByAttach: before !== created,
      isTouched: lastWriteOf(root, id) !== before,
    };
  } finally {
    closeSync(device);
    await attachment.release();
  }
}

function lastWriteOf(root: string, id: string): bigint {
  return statSync(join(root, 'volumes', id, 'data'), { bigint: true }).mtimeNs;
}

describe('a block that was written before is written again, durably', () => {
  test('in a pool with a disk to itself: the disk is flushed once', async (t) => {
    using scratch = new Scratch('times');
    const disk = attachDisk(sparseFile(scratch.join('disk.img'), 1024));
    const root = scratch.join('data/pools/test');
    const pool = await openTestPool(scratch, { location: { type: 'device', path: disk } });
    try {
      const { flushes, id, isTouched, isTouchedByAttach } = await overwrite(pool, root, disk);
      t.diagnostic(`${rounds} writes, ${flushes} flushes of the disk`);
      assert.equal(isTouchedByAttach, true);
      assert.equal(isTouched, false);
      // A program that has saved the pool's files while the volume was in use finds that it was written since.
      const saved = lastWriteOf(root, id);
      await pool.checkHealth(pool.queue, watch);
      assert.notEqual(lastWriteOf(root, id), saved);
      // The filesystem writes its log now and then.
      assert.ok(flushes < rounds * 1.5, `${flushes} flushes`);
    } finally {
      await pool.close();
    }
  });

  test('in a pool with a disk to itself, in use when its driver ends: it has the time of that', async () => {
    using scratch = new Scratch('times');
    const disk = attachDisk(sparseFile(scratch.join('disk.img'), 1024));
    const root = scratch.join('data/pools/test');
    const location = { type: 'device', path: disk } as const;
    const pool = await openTestPool(scratch, { location });
    const { id } = await pool.create(volumeSpec('volume', { content: { type: 'block' } }));
    const attachment = await pool.attach(id, { persistent: false });
    // So the pool stays mounted.
    await using _inUse = { [Symbol.asyncDispose]: () => attachment.release() };
    await pool.checkHealth(pool.queue, watch);
    const saved = lastWriteOf(root, id);
    await setTimeout(tickMs);
    await pool.close();
    assert.notEqual(lastWriteOf(root, id), saved);
  });

  test('in a directory, which programs save that look at the times of files: they are kept', async (t) => {
    using scratch = new Scratch('times');
    const disk = attachDisk(sparseFile(scratch.join('disk.img'), 1024));
    execFileSync('mkfs.xfs', ['-q', disk]);
    const shared = scratch.join('shared');
    mkdirSync(shared);
    execFileSync('mount', [disk, shared]);
    const root = join(shared, 'pool');
    const pool = await openTestPool(scratch, { location: { type: 'directory', path: root } });
    try {
      const { flushes, isTouched } = await overwrite(pool, root, disk);
      t.diagnostic(`${rounds} writes, ${flushes} flushes of the disk`);
      assert.equal(isTouched, true);
    } finally {
      await pool.close();
    }
  });

  test('images that are copied byte by byte keep their times: a copy that was cut short goes on by them', () => {
    assert.equal(mayLeaveTimes({ cloning: 'reflink', location: { isAlone: true } }), true);
    assert.equal(mayLeaveTimes({ cloning: 'copy', location: { isAlone: true } }), false);
    assert.equal(mayLeaveTimes({ cloning: 'reflink', location: { isAlone: false } }), false);
  });
});
