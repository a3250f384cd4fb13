import assert from 'node:assert/strict';
import { mkdir, open, readdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { describe, test } from 'node:test';
import type { Descriptor } from '../../src/kernel/call/descriptor.ts';
import { openDirectory, statusOf } from '../../src/kernel/file/path.ts';
import { unmount, unmountAt } from '../../src/kernel/mount/mount.ts';
import { readMountTable } from '../../src/kernel/mount/mount-table.ts';
import { attach, image, queue, run, scratch } from './fixture.ts';
import { bind, mountAt, mountNew } from './mounting.ts';

describe('bindMount', () => {
  test('shows a directory of a filesystem at a second place, with attributes of its own', async (t) => {
    const directory = await scratch(t);
    const origin = await mountNew(directory, 'ext4', { attributes: { nosuid: true, atime: 'noatime' } });
    await mkdir(`${origin}/sub`);
    await writeFile(`${origin}/sub/file`, 'data');
    await mkdir(`${directory}/all`);
    await mkdir(`${directory}/sub`);
    await bind(origin, `${directory}/all`);
    await bind(`${origin}/sub`, `${directory}/sub`, { readonly: true, noexec: true, nosuid: false, atime: 'relatime' });
    assert.deepEqual((await mountAt(`${directory}/all`))?.options, ['rw', 'nosuid', 'noatime']);
    const sub = await mountAt(`${directory}/sub`);
    assert.deepEqual(sub?.options, ['ro', 'noexec', 'relatime']);
    assert.equal(sub?.root, '/sub');
    assert.equal(await readFile(`${directory}/sub/file`, 'utf8'), 'data');
    await assert.rejects(writeFile(`${directory}/sub/file`, ''), { code: 'EROFS' });
    await writeFile(`${directory}/all/sub/file`, 'more');
    assert.equal(await readFile(`${directory}/sub/file`, 'utf8'), 'more');
  });

  test('a read-only origin gives a writable bind only if that is asked for', async (t) => {
    const directory = await scratch(t);
    const origin = await mountNew(directory, 'ext4', { attributes: { readonly: true } });
    await mkdir(`${directory}/same`);
    await mkdir(`${directory}/writable`);
    await bind(origin, `${directory}/same`);
    await bind(origin, `${directory}/writable`, { readonly: false });
    await assert.rejects(writeFile(`${directory}/same/x`, ''), { code: 'EROFS' });
    await writeFile(`${directory}/writable/x`, '');
  });

  test('leaves behind what is mounted below the origin', async (t) => {
    const directory = await scratch(t);
    const origin = await mountNew(directory, 'ext4');
    await mkdir(`${origin}/below`);
    await writeFile(`${directory}/marker`, '');
    await bind(directory, `${origin}/below`);
    await mkdir(`${directory}/copy`);
    await bind(origin, `${directory}/copy`);
    assert.deepEqual(await readdir(`${directory}/copy/below`), []);
  });

  test('PB14: shows a device node at a file, and the file names the device', async (t) => {
    const directory = await scratch(t);
    const backing = await image(directory);
    const loop = await attach(backing, directory);
    await using _keeper = loop.descriptor;
    await writeFile(`${directory}/volume`, '');
    await bind(loop.devicePath, `${directory}/volume`, { readonly: true });
    const status = await statusOf(queue, `${directory}/volume`);
    assert.deepEqual([status.kind, status.represents, status.isMountRoot], ['block', loop.device, true]);
    const device = await open(`${directory}/volume`, 'r+');
    await device.write('raw');
    await device.sync();
    await device.close();
    assert.equal((await readFile(backing, 'utf8')).slice(0, 3), 'raw');
    await assert.rejects(bind(directory, `${directory}/volume`), { code: 'EINVAL' });
  });

  test('PB20: works at paths with blanks, backslashes, newlines, non-ASCII and more than 128 bytes', async (t) => {
    const directory = await scratch(t);
    const name = `a b\\134c\n#\t${'日本語 ü'.repeat(12)}`;
    assert.ok(Buffer.byteLength(name) > 128);
    const path = await mountNew(directory, 'ext4', { name });
    assert.equal((await mountAt(path))?.fsType, 'ext4');
    await mkdir(`${directory}/b`);
    await mkdir(`${path}/${name}`);
    await bind(`${path}/${name}`, `${directory}/b`);
    assert.equal((await mountAt(`${directory}/b`))?.root, `/${name}`);
    await using root = await openDirectory(queue, directory);
    await unmountAt(queue, root, 'b');
    await unmountAt(queue, root, name);
    assert.equal(await mountAt(path), undefined);
  });

  test('a bind below a shared mount is shared on with its peers', async (t) => {
    const directory = await scratch(t);
    for (const name of ['peer', 'house', 'origin']) await mkdir(`${directory}/${name}`);
    await bind(`${directory}/house`, `${directory}/house`);
    await run('mount', ['--make-shared', `${directory}/house`]);
    await bind(`${directory}/house`, `${directory}/peer`);
    await mkdir(`${directory}/house/target`);
    await bind(`${directory}/origin`, `${directory}/house/target`);
    const [house, peer, target] = await Promise.all(
      ['house', 'peer', 'peer/target'].map((name) => mountAt(`${directory}/${name}`)),
    );
    assert.equal(house?.propagation, 'shared');
    assert.ok(house.peerGroup !== undefined && house.peerGroup === peer?.peerGroup);
    assert.equal(target?.propagation, 'shared');
    await unmount(queue, `${directory}/house/target`);
    assert.equal(await mountAt(`${directory}/peer/target`), undefined);
  });
});

describe('unmount', () => {
  test('says so where nothing is mounted', async (t) => {
    const directory = await scratch(t);
    await mkdir(`${directory}/plain`);
    await using root = await openDirectory(queue, directory);
    await assert.rejects(unmountAt(queue, root, 'plain'), { code: 'EINVAL', path: `${directory}/plain` });
    await assert.rejects(unmountAt(queue, root, 'missing'), { code: 'ENOENT' });
    await assert.rejects(unmount(queue, `${directory}/plain`), { code: 'EINVAL', syscall: 'umount2' });
  });

  test('leaves in place what is in use', async (t) => {
    const directory = await scratch(t);
    const path = await mountNew(directory, 'ext4');
    const user = await open(`${path}/file`, 'w');
    await using root = await openDirectory(queue, directory);
    await assert.rejects(unmountAt(queue, root, 'mnt'), { code: 'EBUSY' });
    await user.close();
    await unmountAt(queue, root, 'mnt');
  });

  test('does not follow a symlink that was put in the way, nor leave the directory', async (t) => {
    const directory = await scratch(t);
    const path = await mountNew(directory, 'ext4');
    await mkdir(`${directory}/house`);
    await symlink(path, `${directory}/house/link`);
    await using house: Descriptor = await openDirectory(queue, `${directory}/house`);
    await assert.rejects(unmountAt(queue, house, 'link'), { code: 'EINVAL' });
    await assert.rejects(unmount(queue, `${directory}/house/link`), { code: 'EINVAL' });
    for (const name of ['../mnt', '..', '', '.', 'link/', '/']) {
      await assert.rejects(unmountAt(queue, house, name), { code: 'EINVAL' }, name);
    }
    assert.equal((await mountAt(path))?.fsType, 'ext4');
  });

  test('of several mounts on one place takes the uppermost', async (t) => {
    const directory = await scratch(t);
    for (const name of ['a', 'b', 'target']) await mkdir(`${directory}/${name}`);
    await bind(`${directory}/a`, `${directory}/target`);
    await bind(`${directory}/b`, `${directory}/target`);
    const roots = async () =>
      (await readMountTable(queue))
        .filter(({ target }) => target === `${directory}/target`)
        .map(({ root }) => root.slice(root.lastIndexOf('/')));
    assert.deepEqual(await roots(), ['/a', '/b']);
    await using root = await openDirectory(queue, directory);
    await unmountAt(queue, root, 'target');
    assert.deepEqual(await roots(), ['/a']);
  });
});

test('readMountTable agrees with the file, whatever its size', async (t) => {
  const directory = await scratch(t);
  await mkdir(`${directory}/${'x'.repeat(200)}`);
  const path = `${directory}/${'x'.repeat(200)}`;
  // More than fits the first time, so that the table is read in more than one go.
  for (let count = 0; count < 300; count++) await bind(directory, path);
  const mounts = await readMountTable(queue);
  assert.equal(mounts.filter(({ target }) => target === path).length, 300);
  const ids = (await readFile('/proc/self/mountinfo', 'utf8')).match(/^[0-9]+/gm) ?? [];
  const known = new Set(mounts.map(({ id }) => String(id)));
  assert.ok(ids.every((id) => known.has(id)));
});
