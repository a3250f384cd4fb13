import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { describe, test } from 'node:test';
import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import { Question } from '../../src/pool/supervisor/question.ts';
import { attachDisk, sparseFile } from '../support/disk.ts';
import { eventually } from '../support/eventually.ts';
import { openTestPool, volumeSpec } from '../support/image-pool.ts';
import { Scratch } from '../support/scratch.ts';

/** As a hypervisor or LVM does it. */
function enlarge(device: string, image: string, sizeMebibytes: number): void {
  sparseFile(image, sizeMebibytes);
  execFileSync('losetup', ['--set-capacity', device]);
}

describe('a device pool whose disk is enlarged', () => {
  test('between two starts: the next one has it all', async () => {
    using scratch = new Scratch('growth');
    const image = sparseFile(scratch.join('disk.img'), 512);
    const path = attachDisk(image);
    const open = () => openTestPool(scratch, { location: { type: 'device', path } });
    const first = await open();
    const before = (await first.capacity()).totalBytes;
    await first.close();
    enlarge(path, image, 2048);
    const second = await open();
    assert.ok((await second.capacity()).totalBytes - before > 1400n << 20n);
    await second.create(volumeSpec('large', { sizeBytes: 1n << 30n }));
    await second.close();
  });

  test('while the driver runs: it finds that when it next looks how the disk is', async () => {
    using scratch = new Scratch('growth');
    const image = sparseFile(scratch.join('disk.img'), 512);
    const path = attachDisk(image);
    const pool = await openTestPool(scratch, { location: { type: 'device', path } });
    const before = (await pool.capacity()).totalBytes;
    enlarge(path, image, 2048);
    await eventually(async () => {
      await pool.checkHealth(new DiskQueue('health', 1), new Question());
      assert.ok((await pool.capacity()).totalBytes - before > 1400n << 20n);
    });
    await pool.create(volumeSpec('large', { sizeBytes: 1n << 30n }));
    await pool.close();
    assert.deepEqual(scratch.mounts(), []);
  });
});
