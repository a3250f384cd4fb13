import assert from 'node:assert/strict';
import { mkdir, open, readFile, truncate, writeFile } from 'node:fs/promises';
import { describe, test } from 'node:test';
import { probeContent } from '../../src/kernel/block/blkid.ts';
import { attach, filesystems, image, openDescriptors, queue, run, scratch } from './fixture.ts';

async function overwrite(path: string, offset: number, bytes: Buffer): Promise<void> {
  const file = await open(path, 'r+');
  await file.write(bytes, 0, bytes.length, offset);
  await file.close();
}

/** A master boot record with one Linux partition from the first MiB on. */
function partitionTable(): Buffer {
  const sector = Buffer.alloc(512);
  sector.writeUInt8(0x83, 446 + 4);
  sector.writeUInt32LE(2048, 446 + 8);
  sector.writeUInt32LE(4096, 446 + 12);
  sector.writeUInt16LE(0xaa55, 510);
  return sector;
}

describe('probeContent', () => {
  for (const fsType of filesystems) {
    test(`knows ${fsType} in a file and on a device, with its UUID`, async (t) => {
      const directory = await scratch(t);
      const path = await image(directory, fsType);
      const { stdout } = await run('blkid', ['-p', '-o', 'value', '-s', 'UUID', path]);
      const expected = { kind: 'filesystem', type: fsType, uuid: stdout.trim() };
      assert.deepEqual(await probeContent(queue, path), expected);
      const loop = await attach(path, directory);
      await using _keeper = loop.descriptor;
      assert.deepEqual(await probeContent(queue, loop.devicePath), expected);
    });
  }

  test('blank is what has no signature: zeros, an empty file, plain text', async (t) => {
    const directory = await scratch(t);
    assert.deepEqual(await probeContent(queue, await image(directory)), { kind: 'blank' });
    await writeFile(`${directory}/text`, 'hello '.repeat(1000));
    assert.deepEqual(await probeContent(queue, `${directory}/text`), { kind: 'blank' });
  });

  test('partition tables, LUKS, swap and LVM are never blank', async (t) => {
    const directory = await scratch(t);
    const table = await image(directory, undefined, 'table');
    await overwrite(table, 0, partitionTable());
    assert.deepEqual(await probeContent(queue, table), { kind: 'partitions', type: 'dos' });

    const swap = await image(directory, undefined, 'swap');
    await run('mkswap', [swap]);
    assert.deepEqual(await probeContent(queue, swap), { kind: 'other', type: 'swap' });

    const luks = await image(directory, undefined, 'luks');
    await overwrite(luks, 0, Buffer.from('LUKS\xba\xbe\x00\x01', 'latin1'));
    assert.deepEqual(await probeContent(queue, luks), { kind: 'other', type: 'crypto_LUKS' });
  });

  test('a filesystem with a damaged superblock is somebody’s data still', async (t) => {
    const directory = await scratch(t);
    for (const fsType of ['ext4', 'xfs'] as const) {
      const path = await image(directory, fsType, fsType);
      const superblockAt = fsType === 'ext4' ? 1024 : 0;
      // The volume's label: nothing but the checksum minds.
      await overwrite(path, superblockAt + (fsType === 'ext4' ? 0x78 : 108), Buffer.from('damage'));
      const content = await probeContent(queue, path);
      assert.equal(content.kind === 'filesystem' && content.type, fsType);
    }
  });

  test('two filesystems in one place are ambivalent', async (t) => {
    const directory = await scratch(t);
    const path = await image(directory, 'ext4');
    const other = await image(directory, 'xfs', 'other');
    await overwrite(path, 0, (await readFile(other)).subarray(0, 1024));
    assert.deepEqual(await probeContent(queue, path), { kind: 'ambivalent' });
  });

  test('reads what is there now, not what was there before', async (t) => {
    const directory = await scratch(t);
    const path = await image(directory, 'ext4');
    const loop = await attach(path, directory);
    await using _keeper = loop.descriptor;
    assert.equal((await probeContent(queue, loop.devicePath)).kind, 'filesystem');
    await run('wipefs', ['--all', loop.devicePath]);
    assert.deepEqual(await probeContent(queue, loop.devicePath), { kind: 'blank' });
    await run('mkfs.ext4', ['-q', '-F', loop.devicePath]);
    assert.equal((await probeContent(queue, loop.devicePath)).kind, 'filesystem');
  });

  test('says why it cannot look, and keeps nothing open', async (t) => {
    const directory = await scratch(t);
    const path = await image(directory, 'ext4');
    await probeContent(queue, path);
    const before = await openDescriptors();
    const failure = { name: 'KernelError', syscall: 'blkid_new_probe_from_filename' };
    await assert.rejects(probeContent(queue, `${directory}/missing`), { ...failure, code: 'ENOENT' });
    await mkdir(`${directory}/directory`);
    await assert.rejects(probeContent(queue, `${directory}/directory`), { name: 'KernelError' });
    await Promise.all(Array.from({ length: 50 }, () => probeContent(queue, path)));
    assert.deepEqual([...(await openDescriptors()).keys()], [...before.keys()]);
  });

  test('finds a filesystem in an image larger than 2^32 sectors', async (t) => {
    const directory = await scratch(t);
    const path = await image(directory, 'xfs');
    await truncate(path, 3 * 2 ** 40);
    assert.equal((await probeContent(queue, path)).kind, 'filesystem');
  });
});
