import assert from 'node:assert/strict';
import { readFileSync, statfsSync, statSync } from 'node:fs';
import { open, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { treeReserveBytes } from '../../src/filesystems/xfs-reserve.ts';
import { openReadOnly } from '../../src/kernel/call/descriptor.ts';
import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import { readXfs, readXfsSpareBlocks } from '../../src/kernel/file/xfs.ts';
import { TrimSchedule } from '../../src/node/trim/trim-schedule.ts';
import { TrimTimer, trimPool } from '../../src/node/trim/trim-timer.ts';
import { trimmed } from '../../src/pool/events.ts';
import { ObjectQueue } from '../../src/volume/flow/object-queue.ts';
import type { Trimming } from '../../src/volume/trimming.ts';
import { eventually } from '../support/eventually.ts';
import { openTestPool } from '../support/image-pool.ts';
import { NodeHarness, run } from '../support/node-harness.ts';
import type { TestVolume } from '../support/node-volume.ts';

const mebibyte = 1 << 20;

let harness: NodeHarness;
before(async () => {
  harness = await NodeHarness.open('trim');
});
after(() => harness[Symbol.asyncDispose]());

const allocated = (volume: TestVolume) => statSync(harness.imageOf(volume)).blocks * 512;

/** Stages the volume, and leaves data on disk that is deleted again. @returns what the image then has allocated */
async function writeAndDelete(volume: TestVolume): Promise<number> {
  await volume.stage();
  const path = join(volume.staging, 'file');
  {
    await using file = await open(path, 'w');
    for (let i = 0; i < 100; i++) await file.write(Buffer.alloc(mebibyte, 'x'));
    await file.sync();
  }
  const writtenBytes = allocated(volume);
  assert.ok(writtenBytes >= 100 * mebibyte);
  const used = () => {
    const { bfree, blocks, bsize } = statfsSync(volume.staging);
    return (blocks - bfree) * bsize;
  };
  const settle = () => run('sync', '--file-system', volume.staging);
  // btrfs counts with the commit, and both it and XFS free in the background.
  settle();
  const usedBytes = used();
  await rm(path);
  settle();
  await eventually(() => {
    assert.ok(usedBytes - used() >= 90 * mebibyte, 'the deleted file still counts as used');
  });
  return writtenBytes;
}

async function withTrimming(trimming: Trimming, work: () => Promise<void>): Promise<void> {
  await harness.restart({ openPool: () => openTestPool(harness.scratch, { trimming }) });
  try {
    await work();
  } finally {
    await harness.restart();
  }
}

let toldBytes = 0n;
trimmed.subscribe(({ bytes }) => {
  toldBytes += bytes;
});

const warnings: string[] = [];
const log = {
  warn: (fields: Record<string, unknown>, message: string) => warnings.push(`${message} ${fields['err']}`),
};
const onTime = (objects = new ObjectQueue()) => trimPool(harness.pool, { objects, log }, new AbortController().signal);

describe('what a filesystem has freed goes back to the pool', () => {
  for (const fsType of ['ext4', 'xfs', 'btrfs'] as const) {
    // More than one slice, and the last one is short.
    const spec = { sizeBytes: 1300n << 20n };

    test(`${fsType}: with the unstage, and on time`, async () => {
      const volume = await harness.volume(`trimmed-${fsType}`, { type: 'mount', fsType }, spec);
      const writtenBytes = await writeAndDelete(volume);
      toldBytes = 0n;
      await volume.unstage();
      assert.ok(toldBytes >= 90n << 20n, `${toldBytes} bytes told of`);
      await harness.hasLoops(volume, 0);
      assert.ok(allocated(volume) <= writtenBytes - 90 * mebibyte, `${allocated(volume)} of ${writtenBytes}`);

      const againBytes = await writeAndDelete(volume);
      toldBytes = 0n;
      await onTime();
      assert.ok(toldBytes >= 90n << 20n, `${toldBytes} bytes told of`);
      assert.deepEqual(warnings, []);
      assert.ok(allocated(volume) <= againBytes - 90 * mebibyte, `${allocated(volume)} of ${againBytes}`);
      await volume.unstage();
      await harness.pool.remove(volume.id);
    });
  }

  test('xfs: what it only sets aside is known, to a MiB', async () => {
    const volume = await harness.volume('set-aside', { type: 'mount', fsType: 'xfs' }, { sizeBytes: 10n << 30n });
    await volume.stage();
    const { bfree, blocks, bsize } = statfsSync(volume.staging);
    const queue = new DiskQueue('trim', 1);
    await using directory = await openReadOnly(queue, volume.staging);
    const xfs = await readXfs(queue, directory);
    const spareBytes = (await readXfsSpareBlocks(queue, directory)) * BigInt(xfs.blockBytes);
    const usedBytes = BigInt(blocks - bfree) * BigInt(bsize) - spareBytes - treeReserveBytes(xfs);
    assert.ok(usedBytes > -1n << 20n && usedBytes < 1n << 20n, `${usedBytes} bytes`);
    assert.ok(xfs.logBlocks * xfs.blockBytes >= 64 * mebibyte);
    await directory[Symbol.asyncDispose]();
    await volume.unstage();
  });

  test('when the timer says so', async () => {
    const volume = await harness.volume('timed', { type: 'mount', fsType: 'ext4' }, { sizeBytes: 200n << 20n });
    const writtenBytes = await writeAndDelete(volume);
    const anHourAgo = new TrimSchedule({ startMs: performance.now() - 3600_000 });
    const objects = new ObjectQueue();
    const timer = new TrimTimer({
      pools: { all: () => [harness.pool] },
      objects,
      log,
      schedule: anHourAgo,
      tickMs: 1,
    });
    await eventually(() => assert.ok(allocated(volume) <= writtenBytes - 90 * mebibyte));
    await timer.stop();
    assert.ok(!objects.busy(volume.id), 'a slice is at work after the timer has stopped');
    assert.deepEqual(warnings, []);
    await volume.unstage();
  });

  test('when the time for it is over, what is left is told, and done later', async () => {
    const volume = await harness.volume('cut-off', { type: 'mount', fsType: 'ext4' }, { sizeBytes: 2500n << 20n });
    await volume.stage();
    // Without it nothing would be gained after the first slice.
    await writeFile(join(volume.staging, 'kept'), Buffer.alloc(100 * mebibyte, 'x'), { flush: true });
    await writeAndDelete(volume);
    const gibibyte = 1n << 30n;
    const { pool } = harness;
    assert.equal(await pool.trim(volume.id, { fromBytes: 0n, budgetMs: 0 }), gibibyte);
    assert.equal(await pool.trim(volume.id, { fromBytes: gibibyte, budgetMs: 0 }), 2n * gibibyte);
    assert.equal(await pool.trim(volume.id, { fromBytes: 2n * gibibyte, budgetMs: 0 }), undefined);
    await volume.unstage();
  });

  test('not of a thick volume, nor where it is off', async () => {
    const content = { type: 'mount', fsType: 'ext4' } as const;
    const spec = { sizeBytes: 200n << 20n };
    const thick = await harness.volume('thick', content, { ...spec, provisioning: 'thick' });
    await writeAndDelete(thick);
    // Nor does ext4 punch holes for tables that it makes zeros in the background.
    const mounts = readFileSync('/proc/self/mounts', 'utf8').split('\n');
    assert.match(mounts.find((line) => line.includes(` ${thick.staging} `)) ?? '', /noinit_itable/);
    await onTime();
    await thick.unstage();
    assert.ok(allocated(thick) >= spec.sizeBytes);

    await withTrimming('off', async () => {
      const volume = await harness.volume('off', content, spec);
      const writtenBytes = await writeAndDelete(volume);
      await volume.unstage();
      assert.ok(allocated(volume) >= writtenBytes - mebibyte);
    });
  });

  test('a volume that a call is at work on is passed over; of one that is not mounted nothing is asked', async () => {
    const volume = await harness.volume('busy', { type: 'mount', fsType: 'ext4' }, { sizeBytes: 200n << 20n });
    const writtenBytes = await writeAndDelete(volume);
    const objects = new ObjectQueue();
    await objects.claim([{ object: volume.id }], 'a call', () => onTime(objects));
    assert.ok(allocated(volume) >= writtenBytes - mebibyte);
    await volume.unstage();
    await onTime();
    assert.deepEqual(warnings, []);
  });
});
