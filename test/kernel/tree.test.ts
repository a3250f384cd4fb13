import assert from 'node:assert/strict';
import { mkdir, readdir, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { describe, test } from 'node:test';
import { openFile, openReadOnly } from '../../src/kernel/call/descriptor.ts';
import { treeName } from '../../src/kernel/file/entry.ts';
import { statusOf } from '../../src/kernel/file/path.ts';
import { ProjectQuota } from '../../src/kernel/file/project-quota.ts';
import { openSubdirectory, type TreeEntry, walkTree } from '../../src/kernel/file/tree.ts';
import { TreeLevels } from '../../src/kernel/file/tree-levels.ts';
import { emptyDirectory, removeTree } from '../../src/kernel/file/tree-removal.ts';
import { openDescriptors, queue, run, scratch } from './fixture.ts';
import { mountNew } from './mounting.ts';

/** A directory so deep that no path leads to its end: made by moving what is there into a new one. */
async function deepDirectory(parent: string, depth: number): Promise<void> {
  await mkdir(join(parent, 'tree'));
  await writeFile(join(parent, 'tree', 'deepest'), '');
  for (let level = 1; level < depth; level++) {
    await mkdir(join(parent, 'next'));
    await rename(join(parent, 'tree'), join(parent, 'next', 'inside-of-the-directory-before'));
    await rename(join(parent, 'next'), join(parent, 'tree'));
  }
}

describe('TreeLevels', () => {
  test('goes up from directories deeper than are open at a time, and refuses one that was moved meanwhile', async (t) => {
    const directory = await scratch(t);
    await mkdir(join(directory, ...Array<string>(100).fill('d')), { recursive: true });
    const descend = async (levels: TreeLevels<object>) => {
      await levels.push(await openReadOnly(queue, directory), {});
      for (let { top } = levels; top !== undefined && levels.depth <= 100; { top } = levels) {
        const below = await openSubdirectory(queue, top.directory, treeName(Buffer.from('d')));
        await levels.push(below, {});
      }
    };
    const before = await openDescriptors();
    {
      await using levels = new TreeLevels<object>(queue);
      await descend(levels);
      assert.ok((await openDescriptors()).size < before.size + 50);
      while (levels.depth > 1) await levels.pop();
      const [here, there] = [
        levels.top && (await statusOf(queue, levels.top.directory)),
        await statusOf(queue, directory),
      ];
      assert.equal(here?.inode, there.inode);
    }
    {
      await using levels = new TreeLevels<object>(queue);
      await descend(levels);
      const middle = join(directory, ...Array<string>(50).fill('d'));
      await rename(middle, join(directory, 'elsewhere'));
      await assert.rejects(
        async () => {
          while (levels.depth > 0) await levels.pop();
        },
        { code: 'ESTALE' },
      );
    }
    assert.deepEqual([...(await openDescriptors()).keys()], [...before.keys()]);
  });

  test('has short paths for messages at any depth', async (t) => {
    const directory = await scratch(t);
    await deepDirectory(directory, 400);
    await using levels = new TreeLevels<object>(queue);
    await levels.push(await openReadOnly(queue, join(directory, 'tree')), {});
    const inside = treeName(Buffer.from('inside-of-the-directory-before'));
    for (let { top } = levels; top !== undefined && levels.depth < 400; { top } = levels) {
      await levels.push(await openSubdirectory(queue, top.directory, inside), {});
      assert.ok((levels.top?.directory.path.length ?? 0) < 4200);
    }
    assert.match(levels.top?.directory.path ?? '', /\/inside-of-the-directory-before$/);
    await run('rm', ['-rf', join(directory, 'tree')]);
  });
});

describe('removeTree', () => {
  test('removes files, links, sockets, names that are no UTF-8, and trees deeper than any path', async (t) => {
    const directory = await scratch(t);
    await deepDirectory(directory, 300);
    const tree = join(directory, 'tree');
    await mkdir(join(directory, 'kept'));
    await writeFile(join(directory, 'kept', 'file'), 'x');
    await symlink(join(directory, 'kept'), join(tree, 'link'));
    await run('mkfifo', [join(tree, 'fifo')]);
    await writeFile(Buffer.concat([Buffer.from(`${tree}/`), Buffer.from([0xff, 0xfe])]), '');
    for (let index = 0; index < 3000; index++)
      await writeFile(join(tree, `a-file-of-many-with-a-long-name-${index}`), '');
    const before = await openDescriptors();
    {
      await using parent = await openReadOnly(queue, directory);
      await removeTree(queue, parent, 'tree');
      await removeTree(queue, parent, 'tree');
    }
    assert.deepEqual(await readdir(directory), ['kept']);
    assert.deepEqual(await readdir(join(directory, 'kept')), ['file']);
    assert.deepEqual([...(await openDescriptors()).keys()], [...before.keys()]);
  });

  test('removes what is marked as immutable or to be appended to only', async (t) => {
    const directory = await scratch(t);
    const tree = join(directory, 'tree');
    await mkdir(join(tree, 'immutable'), { recursive: true });
    await writeFile(join(tree, 'immutable', 'file'), '');
    await writeFile(join(tree, 'log'), '');
    await run('chattr', ['+a', join(tree, 'log')]);
    await run('chattr', ['+i', join(tree, 'immutable')]);
    await emptyDirectory(queue, directory, () => false);
    assert.deepEqual(await readdir(directory), []);
  });

  test('removes subvolumes of btrfs, read-only, empty, deep and in each other', async (t) => {
    const directory = await scratch(t);
    const path = await mountNew(directory, 'btrfs');
    const tree = join(path, 'tree');
    await mkdir(tree);
    await run('btrfs', ['subvolume', 'create', join(tree, 'sub')]);
    await run('btrfs', ['subvolume', 'create', join(tree, 'sub', 'inner')]);
    await writeFile(join(tree, 'sub', 'inner', 'file'), 'x');
    await deepDirectory(join(tree, 'sub'), 80);
    await run('btrfs', ['subvolume', 'snapshot', '-r', join(tree, 'sub'), join(tree, 'kept')]);
    await run('btrfs', ['subvolume', 'snapshot', '-r', join(tree, 'sub', 'inner'), join(tree, 'sub', 'kept')]);
    await run('btrfs', ['subvolume', 'create', join(tree, 'empty')]);
    await run('btrfs', ['property', 'set', join(tree, 'empty'), 'ro', 'true']);
    {
      await using parent = await openReadOnly(queue, path);
      await removeTree(queue, parent, 'tree');
    }
    assert.deepEqual(await readdir(path), []);
  });

  test('leaves what is mounted in the tree alone, and says so', async (t) => {
    const directory = await scratch(t);
    const tree = join(directory, 'tree');
    const other = join(directory, 'other');
    await mkdir(join(tree, 'mounted'), { recursive: true });
    await mkdir(other);
    await writeFile(join(other, 'precious'), '');
    // Of the same filesystem: its device number tells nothing.
    await run('mount', ['--bind', other, join(tree, 'mounted')]);
    await using parent = await openReadOnly(queue, directory);
    await assert.rejects(removeTree(queue, parent, 'tree'), { code: 'EXDEV' });
    assert.deepEqual(await readdir(other), ['precious']);
  });

  test('stops when it is told to, and is gone on with later', async (t) => {
    const directory = await scratch(t);
    await mkdir(join(directory, 'tree'));
    await writeFile(join(directory, 'tree', 'file'), '');
    const stopped = AbortSignal.abort();
    await assert.rejects(
      emptyDirectory(queue, directory, () => false, stopped),
      { name: 'AbortError' },
    );
    assert.deepEqual(await readdir(directory), ['tree']);
    await emptyDirectory(queue, directory, (name) => name === 'left');
    assert.deepEqual(await readdir(directory), []);
  });
});

describe('walkTree', () => {
  test('visits each inode once, opens neither devices nor FIFOs, and refuses mounts and what is too deep', async (t) => {
    const directory = await scratch(t);
    const tree = join(directory, 'tree');
    await mkdir(join(tree, 'sub'), { recursive: true });
    await writeFile(join(tree, 'sub', 'file'), '');
    await run('mkfifo', [join(tree, 'fifo')]);
    await run('mknod', [join(tree, 'device'), 'b', '7', '9999']);
    await symlink('/', join(tree, 'link'));
    await using root = await openReadOnly(queue, tree);
    const seen: string[] = [];
    await walkTree(queue, root, async ({ file, status }) => {
      seen.push(`${file.path.slice(tree.length)} ${status.kind}`);
    });
    assert.deepEqual(seen.sort(), [
      ' directory',
      '/device block',
      '/fifo other',
      '/link symlink',
      '/sub directory',
      '/sub/file file',
    ]);
    await mkdir(join(tree, 'mounted'));
    await run('mount', ['--bind', '/dev', join(tree, 'mounted')]);
    await assert.rejects(
      walkTree(queue, root, async () => undefined),
      { code: 'EXDEV' },
    );
    const deep = join(directory, 'deep');
    await mkdir(deep);
    await deepDirectory(deep, 450);
    // Beside the deep directory, before it or behind it.
    for (let at = 0; at < 200; at++) await writeFile(join(deep, `beside-${at}`), '');
    await using deepRoot = await openReadOnly(queue, deep);
    for (const isInUse of [false, true]) {
      const kinds: string[] = [];
      let open = 0;
      const visit = async ({ status }: TreeEntry) => {
        kinds.push(status.kind);
        open = Math.max(open, (await openDescriptors()).size);
      };
      await walkTree(queue, deepRoot, visit, { isInUse });
      assert.deepEqual([kinds.filter((kind) => kind === 'file').length, kinds.length], [201, 201 + 450 + 1]);
      assert.ok(open < 100, `${open} are open`);
    }
    await emptyDirectory(queue, deep, () => false);
  });

  test('goes on past a directory that is removed while it is in there, in a tree that is in use', async (t) => {
    const directory = await scratch(t);
    const remove = () => rm(join(directory, 'tree', 'gone'), { recursive: true });
    const visited: string[] = [];
    const walk = async (isInUse: boolean) => {
      await mkdir(join(directory, 'tree', 'gone', 'below'), { recursive: true });
      for (const name of ['a', 'z']) await writeFile(join(directory, 'tree', name), '');
      await using root = await openReadOnly(queue, join(directory, 'tree'));
      const visit = async ({ file }: TreeEntry) => {
        visited.push(basename(file.path));
        if (file.path.endsWith('/gone')) await remove();
      };
      await walkTree(queue, root, visit, { isInUse });
    };
    await walk(true);
    assert.deepEqual(visited.sort(), ['a', 'gone', 'tree', 'z']);
    await assert.rejects(walk(false), { code: 'ENOENT' });
  });
});

test('a filesystem without project quota says so', async (t) => {
  const directory = await scratch(t);
  for (const path of [directory, '/proc', '/dev']) {
    await using file = await openFile(queue, path, 0);
    const { device } = await statusOf(queue, file);
    assert.ok(device.minor >= 0);
    assert.deepEqual(await new ProjectQuota(queue, file).state(), { isAccounted: false, isEnforced: false });
  }
});
