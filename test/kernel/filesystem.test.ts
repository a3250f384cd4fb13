import '../support/without-sys-resource.ts';
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { access, mkdir, readFile, stat, statfs, truncate, writeFile } from 'node:fs/promises';
import { describe, type TestContext, test } from 'node:test';
import { deviceSizeBytes } from '../../src/kernel/block/block.ts';
import { type LoopDevice, refreshLoopSize } from '../../src/kernel/block/loop.ts';
import type { Descriptor } from '../../src/kernel/call/descriptor.ts';
import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import { isErrno } from '../../src/kernel/call/errno.ts';
import { reflink, seesReflink, trim } from '../../src/kernel/file/filesystem.ts';
import { openDirectory, statusOf } from '../../src/kernel/file/path.ts';
import { FilesystemFrozen, freeze, isFrozen, thaw } from '../../src/kernel/mount/freeze.ts';
import { growMounted } from '../../src/kernel/mount/grow.ts';
import { mountFilesystem } from '../../src/kernel/mount/mount.ts';
import type { FilesystemType } from '../../src/volume/filesystem.ts';
import { attach, eventually, filesystems, image, queue, run, scratch } from './fixture.ts';

async function mounted(
  t: TestContext,
  fsType: FilesystemType,
): Promise<{ backing: string; path: string; loop: LoopDevice }> {
  const directory = await scratch(t);
  const backing = await image(directory, fsType);
  const loop = await attach(backing, directory);
  await using _keeper = loop.descriptor;
  const path = `${directory}/mnt`;
  await mkdir(path);
  await using target = await openDirectory(queue, path);
  await mountFilesystem(queue, { fsType, source: loop.devicePath, parameters: [], attributes: {}, target });
  return { backing, path, loop };
}

async function settle(directory: Descriptor): Promise<void> {
  await freeze(queue, directory);
  await thaw(queue, directory);
}

describe('growMounted', () => {
  for (const fsType of filesystems) {
    test(`CV27 NE05: ${fsType} gets as large as its device, with its data, and stays so on a replay`, async (t) => {
      const { backing, path, loop } = await mounted(t, fsType);
      const data = randomBytes(1 << 20);
      await writeFile(`${path}/data`, data);
      const before = await statfs(path);
      const { sizeBytes } = await statusOf(queue, backing);
      const deviceBytes = sizeBytes * 2n;
      await truncate(backing, Number(deviceBytes));
      await refreshLoopSize(queue, loop.number);
      const growth = { fsType, directory: path, devicePath: loop.devicePath, deviceBytes, settle, name: 'it' };
      assert.equal(await deviceSizeBytes(queue, loop.devicePath), deviceBytes);

      if (fsType === 'ext4') {
        await assert.rejects(growMounted(queue, growth), { code: 'EPERM', syscall: 'ioctl(EXT4_IOC_RESIZE_FS)' });
        assert.equal((await statfs(path)).blocks, before.blocks);
      } else {
        await growMounted(queue, growth);
        const after = await statfs(path);
        assert.ok(after.blocks * after.bsize > 1.8 * before.blocks * before.bsize, `${after.blocks} blocks`);
        await growMounted(queue, growth);
        assert.equal((await statfs(path)).blocks, after.blocks);
      }
      assert.equal(digest(await readFile(`${path}/data`)), digest(data));
    });

    test(`PB19: ${fsType} that is as large as its device needs nothing, not even a capability`, async (t) => {
      const { path, loop } = await mounted(t, fsType);
      const before = await statfs(path);
      const deviceBytes = await deviceSizeBytes(queue, loop.devicePath);
      await growMounted(queue, {
        fsType,
        directory: path,
        devicePath: loop.devicePath,
        deviceBytes,
        settle,
        name: 'it',
      });
      assert.equal((await statfs(path)).blocks, before.blocks);
    });
  }

  test('ext4 whose last group was too small to be made is as large as it gets', async (t) => {
    const directory = await scratch(t);
    const backing = await image(directory);
    // Eight groups of 8192 blocks of 1 KiB, and twelve blocks more, which mke2fs leaves out.
    await truncate(backing, (8 * 8192 + 1 + 12) * 1024);
    await run('mkfs.ext4', ['-q', '-b', '1024', backing]);
    const loop = await attach(backing, directory);
    await using _keeper = loop.descriptor;
    await mkdir(`${directory}/mnt`);
    await using target = await openDirectory(queue, `${directory}/mnt`);
    const mount = { fsType: 'ext4', source: loop.devicePath, parameters: [], attributes: {}, target } as const;
    await mountFilesystem(queue, mount);
    const deviceBytes = await deviceSizeBytes(queue, loop.devicePath);
    const growth = {
      fsType: 'ext4',
      directory: `${directory}/mnt`,
      devicePath: loop.devicePath,
      deviceBytes,
      settle,
      name: 'it',
    } as const;
    await growMounted(queue, growth);
  });

  async function grown(t: TestContext, fsType: FilesystemType) {
    const { backing, path, loop } = await mounted(t, fsType);
    const { sizeBytes } = await statusOf(queue, backing);
    const growth = { fsType, directory: path, devicePath: loop.devicePath, settle, name: 'volume a' };
    const enlarge = async () => {
      await truncate(backing, Number(sizeBytes) * 2);
      await refreshLoopSize(queue, loop.number);
      return { ...growth, deviceBytes: sizeBytes * 2n };
    };
    return { path, growth: { ...growth, deviceBytes: sizeBytes }, enlarge };
  }

  for (const fsType of ['ext4', 'xfs'] as const) {
    test(`H16: ${fsType} that is frozen is not waited for, if there is something to grow or not`, async (t) => {
      const { enlarge, growth, path } = await grown(t, fsType);
      await freeze(queue, path);
      try {
        await growMounted(queue, growth);
        const larger = await enlarge();
        await assert.rejects(growMounted(queue, larger), (error) => {
          return error instanceof FilesystemFrozen && /volume a .*its filesystem is frozen/.test(error.message);
        });
      } finally {
        await thaw(queue, path);
      }
    });
  }

  test('H16 H40: a btrfs that is frozen keeps neither its pool waiting, nor its caller, nor another btrfs', async (t) => {
    const frozen = await grown(t, 'btrfs');
    const other = await grown(t, 'btrfs');
    const larger = await frozen.enlarge();
    const before = await statfs(frozen.path);
    const narrow = new DiskQueue('narrow', 1);
    const mayBeFrozen = (error: unknown) =>
      error instanceof FilesystemFrozen && /volume a cannot grow now: .*may be frozen/.test(error.message);
    await freeze(queue, frozen.path);
    try {
      const answers = [assert.rejects(growMounted(narrow, larger), mayBeFrozen)];
      await eventually(async () => narrow.anyBusySinceMs !== undefined && narrow.running === 0);
      answers.push(assert.rejects(growMounted(narrow, await other.enlarge()), mayBeFrozen));
      await Promise.all(answers);
      assert.equal((await statfs(frozen.path)).blocks, before.blocks);
    } finally {
      await thaw(queue, frozen.path);
    }
    await eventually(async () => (await statfs(frozen.path)).blocks > before.blocks);
    const otherBefore = await statfs(other.path);
    await growMounted(narrow, { ...other.growth, deviceBytes: other.growth.deviceBytes * 2n });
    assert.ok((await statfs(other.path)).blocks > otherBefore.blocks);
  });

  test('H19: xfs that is read-only is not taken for a frozen one', async (t) => {
    const { enlarge, path } = await grown(t, 'xfs');
    const larger = await enlarge();
    await run('mount', ['-o', 'remount,ro', path]);
    await assert.rejects(growMounted(queue, { ...larger, hidesFreeze: true }), { code: 'EROFS' });
  });
});

function digest(data: Buffer): string {
  return createHash('sha256').update(data).digest('hex');
}

describe('freeze and thaw', () => {
  test('stop writers and let them go on', async (t) => {
    const { path } = await mounted(t, 'ext4');
    await freeze(queue, path);
    const write = writeFile(`${path}/late`, 'x');
    try {
      await assert.rejects(freeze(queue, path), { code: 'EBUSY', syscall: 'ioctl(FIFREEZE)' });
      await assert.rejects(access(`${path}/late`), { code: 'ENOENT' });
    } finally {
      assert.equal(await thaw(queue, path), true);
    }
    await write;
    assert.equal(await readFile(`${path}/late`, 'utf8'), 'x');
    assert.equal(await thaw(queue, path), false);
  });
});

test('trim gives the free blocks of a filesystem back to the image', async (t) => {
  const { backing, path } = await mounted(t, 'ext4');
  await writeFile(`${path}/big`, randomBytes(8 << 20), { flush: true });
  await truncate(`${path}/big`, 0);
  await run('sync', ['-f', path]);
  const before = await statusOf(queue, backing);
  assert.ok((await trim(queue, path)) >= 8n << 20n);
  const after = await statusOf(queue, backing);
  assert.ok(after.allocatedBytes <= before.allocatedBytes - (7n << 20n));
});

describe('seesReflink', () => {
  for (const fsType of filesystems) {
    test(`${fsType}: sees what a try shows, and writes nothing`, async (t) => {
      const { path } = await mounted(t, fsType);
      const before = await stat(path, { bigint: true });
      const seen = await seesReflink(queue, path);
      assert.equal((await stat(path, { bigint: true })).ctimeNs, before.ctimeNs);
      await writeFile(`${path}/a`, randomBytes(8192));
      const tried = await reflink(queue, `${path}/a`, `${path}/b`).then(
        () => true,
        () => false,
      );
      assert.equal(seen, tried);
    });
  }
});

describe('reflink', () => {
  for (const fsType of ['xfs', 'btrfs'] as const) {
    test(`shares blocks on ${fsType}, and the copies go their own ways`, async (t) => {
      const { path } = await mounted(t, fsType);
      const data = randomBytes(4 << 20);
      await writeFile(`${path}/a`, data, { flush: true });
      const before = await statfs(path);
      await reflink(queue, `${path}/a`, `${path}/b`);
      const after = await statfs(path);
      assert.ok((before.bfree - after.bfree) * after.bsize < 1 << 20);
      await writeFile(`${path}/a`, 'changed');
      assert.equal(digest(await readFile(`${path}/b`)), digest(data));
      await assert.rejects(reflink(queue, `${path}/a`, `${path}/b`), { code: 'EEXIST' });
      assert.equal(digest(await readFile(`${path}/b`)), digest(data));
    });
  }

  test('leaves nothing where the filesystem cannot do it', async (t) => {
    const { path } = await mounted(t, 'ext4');
    await writeFile(`${path}/a`, 'x');
    await assert.rejects(reflink(queue, `${path}/a`, `${path}/b`), (error) => isErrno(error, 'EOPNOTSUPP', 'ENOTSUP'));
    await assert.rejects(access(`${path}/b`), { code: 'ENOENT' });
    await assert.rejects(reflink(queue, `${path}/missing`, `${path}/b`), { code: 'ENOENT', path: `${path}/missing` });
    await assert.rejects(access(`${path}/b`), { code: 'ENOENT' });
  });
});

describe('isFrozen', () => {
  for (const fsType of ['ext4', 'xfs'] as const) {
    test(`VS08: ${fsType} tells without waiting`, async (t) => {
      const { path, loop } = await mounted(t, fsType);
      await using directory = await openDirectory(queue, path);
      const look = () => isFrozen(queue, { fsType, devicePath: loop.devicePath, directory });
      assert.equal(await look(), false);
      await freeze(queue, directory);
      assert.equal(await look(), true);
      await thaw(queue, directory);
      assert.equal(await look(), false);
    });
  }
});
