import assert from 'node:assert/strict';
import { constants } from 'node:fs';
import { mkdir, open, truncate, writeFile } from 'node:fs/promises';
import { describe, type TestContext, test } from 'node:test';
import { openReadOnly } from '../../src/kernel/call/descriptor.ts';
import { type Extent, extentsPerCall, readExtents } from '../../src/kernel/file/fiemap.ts';
import { allocate } from '../../src/kernel/file/file.ts';
import { reflink } from '../../src/kernel/file/filesystem.ts';
import { openDirectory } from '../../src/kernel/file/path.ts';
import { mountFilesystem } from '../../src/kernel/mount/mount.ts';
import type { FilesystemType } from '../../src/volume/filesystem.ts';
import { attach, filesystems, image, queue, run, scratch } from './fixture.ts';

const block = 4096;
const mebibyte = 1 << 20;

/** A directory on a filesystem of its own. */
async function mounted(t: TestContext, fsType: FilesystemType): Promise<string> {
  const directory = await scratch(t);
  const loop = await attach(await image(directory, fsType), directory);
  await using _keeper = loop.descriptor;
  const path = `${directory}/mnt`;
  await mkdir(path);
  await using target = await openDirectory(queue, path);
  await mountFilesystem(queue, { fsType, source: loop.devicePath, parameters: [], attributes: {}, target });
  return path;
}

/** All extents of a file, read as often as it takes. */
async function extentsOf(path: string, toBytes: bigint): Promise<{ extents: Extent[]; calls: number }> {
  await using file = await openReadOnly(queue, path);
  const extents: Extent[] = [];
  let calls = 0;
  for (let fromBytes = 0n; fromBytes < toBytes; calls++) {
    const page = await readExtents(queue, file, fromBytes, toBytes);
    assert.ok(page.untilBytes > fromBytes);
    extents.push(...page.extents);
    fromBytes = page.untilBytes;
  }
  return { extents, calls };
}

async function write(path: string, ...offsets: readonly number[]): Promise<void> {
  const file = await open(path, constants.O_RDWR | constants.O_CREAT);
  try {
    for (const offset of offsets) await file.write(Buffer.alloc(block, 7), 0, block, offset);
  } finally {
    await file.close();
  }
}

const placesOf = (extents: readonly Extent[]) =>
  extents.map(({ offsetBytes, isWritten, physicalBytes }) => ({ offsetBytes, isWritten, physicalBytes }));

describe('readExtents', () => {
  for (const fsType of filesystems) {
    test(`${fsType}: data that is not on the disk yet is written back and has a place; holes are left out`, async (t) => {
      const path = `${await mounted(t, fsType)}/file`;
      await write(path, 0, 16 * block);
      await truncate(path, mebibyte);
      const { extents } = await extentsOf(path, BigInt(mebibyte));
      assert.deepEqual(
        extents.map(({ offsetBytes, lengthBytes, isWritten }) => ({ offsetBytes, lengthBytes, isWritten })),
        [0n, 16n * BigInt(block)].map((offsetBytes) => ({
          offsetBytes,
          lengthBytes: BigInt(block),
          isWritten: true,
        })),
      );
      assert.ok(extents.every(({ physicalBytes }) => physicalBytes !== undefined));
    });

    test(`SM14: ${fsType}: blocks that were reserved count as unwritten, until they are written to`, async (t) => {
      const path = `${await mounted(t, fsType)}/file`;
      await writeFile(path, '');
      await allocate(queue, path, BigInt(mebibyte));
      const before = await extentsOf(path, BigInt(mebibyte));
      assert.ok(before.extents.length > 0);
      assert.ok(before.extents.every(({ isWritten }) => !isWritten));
      await write(path, 64 * block);
      const written = (await extentsOf(path, BigInt(mebibyte))).extents.filter(({ isWritten }) => isWritten);
      assert.deepEqual(
        written.map(({ offsetBytes, lengthBytes }) => [offsetBytes, lengthBytes]),
        [[64n * BigInt(block), BigInt(block)]],
      );
    });
  }

  test('SM14: a clone has its data where its source has it, and elsewhere once it is written to', async (t) => {
    const directory = await mounted(t, 'xfs');
    const [source, clone] = [`${directory}/source`, `${directory}/clone`];
    await write(source, 0, 2 * block, 4 * block);
    await reflink(queue, source, clone);
    const toBytes = BigInt(mebibyte);
    const before = placesOf((await extentsOf(source, toBytes)).extents);
    assert.deepEqual(placesOf((await extentsOf(clone, toBytes)).extents), before);
    await write(source, 2 * block);
    const after = placesOf((await extentsOf(source, toBytes)).extents);
    assert.deepEqual(placesOf((await extentsOf(clone, toBytes)).extents), before);
    assert.deepEqual([after[0], after[2]], [before[0], before[2]]);
    assert.notEqual(after[1]?.physicalBytes, before[1]?.physicalBytes);
  });

  test('SM14: a clone of reserved blocks has a hole there', async (t) => {
    const directory = await mounted(t, 'xfs');
    const [source, clone] = [`${directory}/source`, `${directory}/clone`];
    await writeFile(source, '');
    await allocate(queue, source, BigInt(mebibyte));
    await reflink(queue, source, clone);
    assert.deepEqual((await extentsOf(clone, BigInt(mebibyte))).extents, []);
  });

  test('more extents than one call brings are read page by page, from any offset on', async (t) => {
    const path = `${await mounted(t, 'xfs')}/file`;
    const count = extentsPerCall * 2 + 100;
    const toBytes = BigInt(count * 2 * block);
    // As long as it will be: a file that grows gets blocks in advance.
    await writeFile(path, '');
    await truncate(path, Number(toBytes));
    await write(path, ...Array.from({ length: count }, (_, index) => index * 2 * block));
    const { extents, calls } = await extentsOf(path, toBytes);
    assert.equal(extents.length, count);
    assert.equal(calls, 3);
    await using file = await openReadOnly(queue, path);
    const middle = await readExtents(queue, file, BigInt(20 * block + 1), BigInt(22 * block + 1));
    assert.deepEqual(
      middle.extents.map(({ offsetBytes }) => offsetBytes),
      [BigInt(20 * block), BigInt(22 * block)],
    );
  });

  test('what cannot be read is an error with the name of the call', async (t) => {
    const directory = await mounted(t, 'xfs');
    await write(`${directory}/file`, 0);
    await using file = await openReadOnly(queue, `${directory}/file`);
    await run('xfs_io', ['-x', '-c', 'shutdown', directory]);
    await assert.rejects(readExtents(queue, file, 0n, 4096n), { code: 'EIO', syscall: 'ioctl(FS_IOC_FIEMAP)' });
  });
});
