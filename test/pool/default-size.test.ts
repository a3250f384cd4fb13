import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, statfsSync, statSync } from 'node:fs';
import { describe, test } from 'node:test';
import { parseQuantity } from '../../src/volume/size.ts';
import { attachDisk, sparseFile } from '../support/disk.ts';
import { openTestPool, volumeSpec } from '../support/image-pool.ts';
import { Scratch } from '../support/scratch.ts';

const mebibyte = 1 << 20;

describe('the size of a pool that nobody has chosen', () => {
  test('the PostgreSQL example fits into the default pool of a disk of 20 GiB', async () => {
    using scratch = new Scratch('default');
    const { open } = mountHost(scratch, 20 << 10);
    const example = readFileSync(new URL('../../deploy/examples/postgresql.yaml', import.meta.url), 'utf8');
    const sizeBytes = parseQuantity(/storage: (\S+)/.exec(example)?.[1] ?? '');
    const pool = await open();
    assert.ok((await pool.capacity()).availableBytes >= sizeBytes);
    await pool.create(volumeSpec('postgresql', { sizeBytes }));
    await pool.close();
  });

  test('it is 80 % of what is free, and follows the disk, but never shrinks', async () => {
    using scratch = new Scratch('default');
    const { directory, device, open } = mountHost(scratch, 4 << 10);
    const file = `${directory}/data/pools/test.img`;
    const freeBytes = statfsSync(directory).bavail * statfsSync(directory).bsize;
    await (await open()).close();
    const firstBytes = statSync(file).size;
    assert.ok(Math.abs(firstBytes - freeBytes * 0.8) < 64 * mebibyte, `${firstBytes} of ${freeBytes}`);
    // What the pool takes of its disk makes no other size of it, nor does what others take.
    execFileSync('fallocate', ['--length', '2G', `${directory}/foreign`]);
    await (await open()).close();
    assert.equal(statSync(file).size, firstBytes);
    rmSync(`${directory}/foreign`);
    await (await open()).close();
    assert.equal(statSync(file).size, firstBytes);
    sparseFile(scratch.join('disk.img'), 8 << 10);
    execFileSync('losetup', ['--set-capacity', device]);
    // At rest, since a machine may deny the capability that it takes otherwise.
    execFileSync('umount', [directory]);
    execFileSync('e2fsck', ['-f', '-p', device], { stdio: 'ignore' });
    execFileSync('resize2fs', [device], { stdio: 'ignore' });
    execFileSync('mount', [device, directory]);
    const grown = await open();
    assert.ok(statSync(file).size > 1.9 * firstBytes);
    assert.ok((await grown.capacity()).totalBytes > 1.8 * firstBytes);
    await grown.close();
  });
});

/** A filesystem without reflink, with the driver's directory on it. */
function mountHost(scratch: Scratch, sizeMebibytes: number) {
  const directory = scratch.join('disk');
  mkdirSync(directory);
  const device = attachDisk(sparseFile(scratch.join('disk.img'), sizeMebibytes));
  execFileSync('mkfs.ext4', ['-q', '-m', '0', device]);
  execFileSync('mount', [device, directory]);
  const location = { type: 'auto', sizeBytes: undefined } as const;
  const open = () => openTestPool(scratch, { location, dataDirectory: `${directory}/data` });
  return { directory, device, open };
}
