import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, open, writeFile } from 'node:fs/promises';
import { describe, test } from 'node:test';
import { openDirectory } from '../../src/kernel/file/path.ts';
import { mountFilesystem } from '../../src/kernel/mount/mount.ts';
import { isOpenElsewhere, lockExclusively, lockHolders } from '../../src/kernel/process/lock.ts';
import { attach, eventually, image, openDescriptors, queue, run, scratch } from './fixture.ts';

/** Another process that holds a flock on `path`, as is known when this returns, until it is disposed of. */
async function holdLock(path: string): Promise<{ pid: number | undefined } & AsyncDisposable> {
  const child = spawn('flock', ['--exclusive', '--no-fork', path, 'cat', '-', '-u'], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const exit = once(child, 'exit');
  // cat runs only once flock has the lock.
  child.stdin.write('held');
  await once(child.stdout, 'data');
  return {
    pid: child.pid,
    async [Symbol.asyncDispose]() {
      child.kill('SIGKILL');
      await exit;
    },
  };
}

describe('lockExclusively', () => {
  test('holds files, directories and devices until it is let go', async (t) => {
    const directory = await scratch(t);
    const file = await image(directory);
    const loop = await attach(file, directory);
    await using _keeper = loop.descriptor;
    const before = await openDescriptors();
    for (const path of [file, directory, loop.devicePath]) {
      {
        await using lock = await lockExclusively(queue, path);
        assert.ok(lock !== undefined, path);
        assert.equal(await lockExclusively(queue, path), undefined);
      }
      await using again = await lockExclusively(queue, path);
      assert.ok(again !== undefined, path);
    }
    assert.deepEqual([...(await openDescriptors()).keys()], [...before.keys()]);
    await assert.rejects(lockExclusively(queue, `${directory}/missing`), { code: 'ENOENT' });
  });

  test('goes with the process that held it', async (t) => {
    const directory = await scratch(t);
    {
      await using _holder = await holdLock(directory);
      assert.equal(await lockExclusively(queue, directory), undefined);
    }
    await using lock = await lockExclusively(queue, directory);
    assert.ok(lock !== undefined);
  });
});

describe('lockHolders', () => {
  test('names the process and its command', async (t) => {
    const directory = await scratch(t);
    assert.deepEqual(await lockHolders(queue, directory), []);
    await using holder = await holdLock(directory);
    assert.deepEqual(await lockHolders(queue, directory), [{ pid: holder.pid, command: 'cat - -u' }]);
    await using own = await lockExclusively(queue, `${directory}/..`);
    assert.ok(own !== undefined);
    const [self] = await lockHolders(queue, `${directory}/..`);
    assert.equal(self?.pid, process.pid);
  });

  test('names it on btrfs, whose files have another device than its locks', async (t) => {
    const directory = await scratch(t);
    const loop = await attach(await image(directory, 'btrfs'), directory);
    await using _keeper = loop.descriptor;
    await mkdir(`${directory}/mnt`);
    await using target = await openDirectory(queue, `${directory}/mnt`);
    const mount = { fsType: 'btrfs', source: loop.devicePath, parameters: [], attributes: {}, target } as const;
    await mountFilesystem(queue, mount);
    await run('btrfs', ['subvolume', 'create', `${directory}/mnt/sub`]);
    for (const path of [`${directory}/mnt/sub/file`, `${directory}/mnt/file`]) {
      await writeFile(path, '');
      await using holder = await holdLock(path);
      assert.deepEqual(await lockHolders(queue, path), [{ pid: holder.pid, command: 'cat - -u' }]);
    }
  });

  test('names it on overlayfs', async (t) => {
    const directory = await scratch(t);
    for (const name of ['lower', 'upper', 'work', 'merged']) await mkdir(`${directory}/${name}`);
    for (const name of ['lower', 'upper']) await writeFile(`${directory}/${name}/in ${name}`, '');
    await using target = await openDirectory(queue, `${directory}/merged`);
    const parameters = ['lower', 'upper', 'work'].map((name) => [`${name}dir`, `${directory}/${name}`] as const);
    await mountFilesystem(queue, { fsType: 'overlay', source: 'overlay', parameters, attributes: {}, target });
    for (const name of ['in lower', 'in upper', '.']) {
      const path = `${directory}/merged/${name}`;
      await using holder = await holdLock(path);
      assert.deepEqual(await lockHolders(queue, path), [{ pid: holder.pid, command: 'cat - -u' }], name);
    }
  });
});

describe('isOpenElsewhere', () => {
  test('is false for a file that nobody has open, as often as one asks', async (t) => {
    const directory = await scratch(t);
    const path = await image(directory);
    const before = await openDescriptors();
    for (let count = 0; count < 20; count++) assert.equal(await isOpenElsewhere(queue, path), false);
    assert.deepEqual([...(await openDescriptors()).keys()], [...before.keys()]);
    await assert.rejects(isOpenElsewhere(queue, `${directory}/missing`), { code: 'ENOENT' });
    await assert.rejects(isOpenElsewhere(queue, directory), { code: 'EISDIR' });
  });

  test('is true while a loop device has it, writable or read-only, also under a mount', async (t) => {
    const directory = await scratch(t);
    const path = await image(directory, 'ext4');
    for (const readonly of [false, true]) {
      const loop = await attach(path, directory, { readonly });
      assert.equal(await isOpenElsewhere(queue, path), true);
      await loop.descriptor[Symbol.asyncDispose]();
      await eventually(async () => !(await isOpenElsewhere(queue, path)));
    }
  });

  test('is true while anybody reads or writes it, this process too', async (t) => {
    const directory = await scratch(t);
    const path = await image(directory);
    for (const flags of ['r', 'r+', 'a']) {
      const user = await open(path, flags);
      assert.equal(await isOpenElsewhere(queue, path), true, flags);
      await user.close();
    }
    const other = spawn('sh', ['-c', 'exec 3<"$1"; echo open; exec sleep 1000', 'sh', path], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const exit = once(other, 'exit');
    await once(other.stdout, 'data');
    assert.equal(await isOpenElsewhere(queue, path), true);
    other.kill();
    await exit;
    assert.equal(await isOpenElsewhere(queue, path), false);
  });

  test('somebody who opens the file in the middle of it neither kills this process nor waits for long', async (t) => {
    const directory = await scratch(t);
    const path = await image(directory);
    // By default the signal for a broken lease, SIGIO, ends the process that holds it.
    const opener = run('sh', ['-c', 'for i in $(seq 20000); do : <"$1"; done', 'sh', path]);
    let isDone = false;
    const done = opener.then(() => {
      isDone = true;
    });
    while (!isDone) await isOpenElsewhere(queue, path);
    await done;
    assert.equal(await isOpenElsewhere(queue, path), false);
  });
});
