import assert from 'node:assert/strict';
import { link, mkdir, readdir, stat, symlink, truncate, writeFile } from 'node:fs/promises';
import { describe, test } from 'node:test';
import { Descriptor } from '../../src/kernel/call/descriptor.ts';
import {
  makeDirectoryAt,
  makeFileAt,
  openBeneath,
  openDirectory,
  removeDirectoryAt,
  removeFileAt,
  statusOf,
} from '../../src/kernel/file/path.ts';
import { readMountTable } from '../../src/kernel/mount/mount-table.ts';
import { attach, image, openDescriptors, queue, scratch } from './fixture.ts';

describe('openBeneath', () => {
  test('opens what lies below the root, the root itself included', async (t) => {
    const directory = await scratch(t);
    await mkdir(`${directory}/a b/ü`, { recursive: true });
    await writeFile(`${directory}/a b/ü/file`, 'x');
    await using root = await openDirectory(queue, directory);
    for (const path of ['', '.', 'a b', 'a b/ü', 'a b/ü/file', 'a b/../a b', './a b//ü/']) {
      await using found = await openBeneath(queue, root, path);
      const expected = await stat(`${directory}/${path}`, { bigint: true });
      assert.equal((await statusOf(queue, found)).inode, expected.ino, path);
    }
  });

  test('says where it is, also below the root of all', async () => {
    await using root = await openDirectory(queue, '/');
    await using found = await openBeneath(queue, root, 'tmp');
    assert.equal(found.path, '/tmp');
  });

  test('follows no symlink, neither on the way nor at the end, and leaves the root by no way', async (t) => {
    const directory = await scratch(t);
    await mkdir(`${directory}/root/inside`, { recursive: true });
    await symlink('inside', `${directory}/root/link`);
    await symlink('/etc', `${directory}/root/outside`);
    await symlink('/proc/self/fd/0', `${directory}/root/magic`);
    await using root = await openDirectory(queue, `${directory}/root`);
    const expected = {
      link: 'ELOOP',
      'link/': 'ELOOP',
      'link/x': 'ELOOP',
      outside: 'ELOOP',
      'outside/passwd': 'ELOOP',
      magic: 'ELOOP',
      '..': 'EXDEV',
      'inside/../../root': 'EXDEV',
      '/etc': 'EXDEV',
      missing: 'ENOENT',
      'inside/missing/x': 'ENOENT',
    };
    for (const [path, code] of Object.entries(expected)) {
      await assert.rejects(openBeneath(queue, root, path), { code, syscall: 'openat2' }, path);
    }
  });

  test('names the whole path in its error', async (t) => {
    const directory = await scratch(t);
    await using root = await openDirectory(queue, directory);
    await assert.rejects(openBeneath(queue, root, 'no'), { path: `${directory}/no` });
  });
});

test('openDirectory follows the symlinks of an operator, and opens directories only', async (t) => {
  const directory = await scratch(t);
  await mkdir(`${directory}/real`);
  await writeFile(`${directory}/file`, '');
  await symlink('real', `${directory}/link`);
  await using root = await openDirectory(queue, `${directory}/link`);
  assert.equal((await statusOf(queue, root)).inode, (await stat(`${directory}/real`, { bigint: true })).ino);
  await assert.rejects(openDirectory(queue, `${directory}/file`), { code: 'ENOTDIR' });
  await assert.rejects(openDirectory(queue, `${directory}/missing`), { code: 'ENOENT' });
});

describe('statusOf', () => {
  test('tells what Node tells, and how much is really allocated', async (t) => {
    const directory = await scratch(t);
    await writeFile(`${directory}/file`, Buffer.alloc(10_000, 'x'), { flush: true });
    await truncate(`${directory}/file`, 2 ** 40);
    const status = await statusOf(queue, `${directory}/file`);
    const expected = await stat(`${directory}/file`, { bigint: true });
    assert.equal(status.kind, 'file');
    assert.equal(status.inode, expected.ino);
    assert.equal(status.sizeBytes, 1n << 40n);
    assert.equal(status.allocatedBytes, expected.blocks * 512n);
    assert.ok(status.allocatedBytes < 1n << 20n);
    assert.equal(status.represents, undefined);
    assert.equal(status.isMountRoot, false);
  });

  test('names the mount as mountinfo does, and its root', async (t) => {
    const directory = await scratch(t);
    const mounts = await readMountTable(queue);
    const status = await statusOf(queue, directory);
    const mount = mounts.find(({ id }) => id === status.mountId);
    assert.deepEqual(mount?.device, status.device);
    const proc = await statusOf(queue, '/proc');
    assert.equal(proc.isMountRoot, true);
    assert.equal(mounts.find(({ id }) => id === proc.mountId)?.target, '/proc');
  });

  test('sees a symlink itself, and a device node with what it stands for', async (t) => {
    const directory = await scratch(t);
    await symlink('/etc', `${directory}/link`);
    assert.equal((await statusOf(queue, `${directory}/link`)).kind, 'symlink');
    assert.equal((await statusOf(queue, '/dev/null')).kind, 'other');
    assert.equal((await statusOf(queue, '/dev/null')).represents, undefined);
    const loop = await attach(await image(directory), directory);
    await using _keeper = loop.descriptor;
    const status = await statusOf(queue, loop.devicePath);
    assert.equal(status.kind, 'block');
    assert.deepEqual(status.represents, loop.device);
    assert.notDeepEqual(status.device, loop.device);
  });

  test('names what is missing', async () => {
    await assert.rejects(statusOf(queue, '/nonexistent'), {
      code: 'ENOENT',
      // Which of them finds out depends on the kernel's cache.
      syscall: /^(statx|openat2)$/,
      path: '/nonexistent',
    });
  });
});

describe('names below a directory', () => {
  test('are made and removed, and never taken over', async (t) => {
    const directory = await scratch(t);
    await symlink('/nonexistent', `${directory}/taken`);
    await using parent = await openDirectory(queue, directory);
    await makeDirectoryAt(queue, parent, 'directory', 0o750);
    await makeFileAt(queue, parent, 'file', 0o640);
    assert.equal((await stat(`${directory}/directory`)).mode & 0o7777, 0o750);
    const file = await stat(`${directory}/file`);
    assert.ok(file.isFile() && file.size === 0 && (file.mode & 0o7777) === 0o640);
    for (const name of ['directory', 'file', 'taken']) {
      await assert.rejects(makeDirectoryAt(queue, parent, name, 0o750), { code: 'EEXIST' });
      await assert.rejects(makeFileAt(queue, parent, name, 0o640), { code: 'EEXIST' });
    }
    await assert.rejects(removeDirectoryAt(queue, parent, 'file'), { code: 'ENOTDIR' });
    await assert.rejects(removeFileAt(queue, parent, 'directory'), { code: 'EISDIR' });
    await writeFile(`${directory}/directory/x`, '');
    await assert.rejects(removeDirectoryAt(queue, parent, 'directory'), { code: 'ENOTEMPTY' });
    await link(`${directory}/file`, `${directory}/other`);
    await removeFileAt(queue, parent, 'file');
    await removeFileAt(queue, parent, 'taken');
    await assert.rejects(removeFileAt(queue, parent, 'file'), { code: 'ENOENT', path: `${directory}/file` });
    assert.deepEqual((await readdir(directory)).sort(), ['directory', 'other']);
  });

  test('have one component: nothing leads elsewhere', async (t) => {
    const directory = await scratch(t);
    await mkdir(`${directory}/below`);
    await using parent = await openDirectory(queue, `${directory}/below`);
    for (const name of ['', '.', '..', '../x', 'a/b', '/x', 'a\0b']) {
      for (const act of [makeDirectoryAt, makeFileAt]) {
        await assert.rejects(act(queue, parent, name, 0o700), { code: 'EINVAL' }, name);
      }
      for (const act of [removeDirectoryAt, removeFileAt]) {
        await assert.rejects(act(queue, parent, name), { code: 'EINVAL' }, name);
      }
    }
    assert.deepEqual(await readdir(directory), ['below']);
  });
});

describe('Descriptor', () => {
  test('names what is open through /proc, is closed on exec, and closes once', async (t) => {
    const directory = await scratch(t);
    await mkdir(`${directory}/sub`);
    await writeFile(`${directory}/sub/x`, '');
    const before = await openDescriptors();
    {
      await using root = await openDirectory(queue, directory);
      await using sub = await openBeneath(queue, root, 'sub');
      assert.deepEqual(await sub.during((path) => readdir(path)), ['x']);
      const opened = await openDescriptors();
      for (const each of [root, sub]) assert.ok(((opened.get(await numberOf(each)) ?? 0n) & 0o2000000n) !== 0n);
      const number = await numberOf(sub);
      await sub[Symbol.asyncDispose]();
      const other = await openBeneath(queue, root, 'sub');
      assert.equal(await numberOf(other), number, 'the number is used again');
      await assert.rejects(numberOf(sub), { code: 'EBADF' });
      await sub[Symbol.asyncDispose]();
      sub.closeNow();
      assert.equal((await statusOf(queue, other)).kind, 'directory');
      await other[Symbol.asyncDispose]();
    }
    assert.deepEqual([...(await openDescriptors()).keys()], [...before.keys()]);
    assert.equal(await new Descriptor(0, 'stdin', undefined).during(async (path) => path), '/proc/self/fd/0');
  });
});

function numberOf(descriptor: Descriptor): Promise<number> {
  return descriptor.during(async (_, fd) => fd);
}
