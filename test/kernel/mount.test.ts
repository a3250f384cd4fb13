import assert from 'node:assert/strict';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { describe, test } from 'node:test';
import { loopStatus } from '../../src/kernel/block/loop.ts';
import { openFile, openFlags } from '../../src/kernel/call/descriptor.ts';
import { KernelError } from '../../src/kernel/call/errno.ts';
import { openBeneath, openDirectory } from '../../src/kernel/file/path.ts';
import { type MountParameter, mountFilesystem, unmount, unmountAt } from '../../src/kernel/mount/mount.ts';
import { attach, detached, filesystems, image, openDescriptors, queue, scratch } from './fixture.ts';
import { mountAt, mountNew } from './mounting.ts';

describe('mountFilesystem', () => {
  for (const fsType of filesystems) {
    test(`mounts ${fsType}, keeps its data, and lets the device go with the last unmount`, async (t) => {
      const directory = await scratch(t);
      const loop = await attach(await image(directory, fsType), directory);
      await mkdir(`${directory}/mnt`);
      await using root = await openDirectory(queue, directory);
      for (const expected of [[], ['kept']]) {
        await using target = await openBeneath(queue, root, 'mnt');
        await mountFilesystem(queue, { fsType, source: loop.devicePath, parameters: [], attributes: {}, target });
        const found = await readdir(`${directory}/mnt`);
        assert.deepEqual(
          found.filter((name) => name !== 'lost+found'),
          expected,
        );
        await writeFile(`${directory}/mnt/kept`, 'x');
        const mount = await mountAt(`${directory}/mnt`);
        assert.equal(mount?.fsType, fsType);
        assert.equal(mount.source, loop.devicePath);
        if (fsType !== 'btrfs') assert.deepEqual(mount.device, loop.device);
        await unmountAt(queue, root, 'mnt');
      }
      assert.equal((await loopStatus(queue, loop.number))?.autoclear, true);
      await loop.descriptor[Symbol.asyncDispose]();
      await detached(loop, directory);
    });
  }

  test("PB20: has the attributes, and the filesystem's own options, that were asked for", async (t) => {
    const directory = await scratch(t);
    const parameters = [['errors', 'remount-ro'], ['data', 'journal'], ['noauto_da_alloc']] as const;
    const attributes = { nosuid: true, nodev: true, noexec: true, nodiratime: true, atime: 'noatime' } as const;
    const path = await mountNew(directory, 'ext4', { parameters, attributes });
    const mount = await mountAt(path);
    assert.deepEqual(new Set(mount?.options), new Set(['rw', 'nosuid', 'nodev', 'noexec', 'noatime', 'nodiratime']));
    for (const option of ['errors=remount-ro', 'data=journal', 'noauto_da_alloc']) {
      assert.ok(mount?.superOptions.includes(option), `${option} in ${mount?.superOptions}`);
    }
    await unmount(queue, path);
    const plain = await mountNew(directory, 'ext4', { name: 'plain', attributes: { nosuid: false, readonly: false } });
    assert.deepEqual((await mountAt(plain))?.options, ['rw', 'relatime']);
    const strict = await mountNew(directory, 'ext4', {
      name: 'strict',
      attributes: { atime: 'strictatime', nosymfollow: true },
    });
    assert.deepEqual(new Set((await mountAt(strict))?.options), new Set(['rw', 'nosymfollow']));
  });

  test('a read-only mount refuses writes, and so does a filesystem on a read-only device', async (t) => {
    const directory = await scratch(t);
    const path = await mountNew(directory, 'ext4', { attributes: { readonly: true } });
    await assert.rejects(writeFile(`${path}/x`, ''), { code: 'EROFS' });
    const mount = await mountAt(path);
    assert.ok(mount?.options.includes('ro') && mount.superOptions.includes('rw'));

    const loop = await attach(await image(directory, 'xfs', 'read-only'), directory, { readonly: true });
    await using _keeper = loop.descriptor;
    await mkdir(`${directory}/ro`);
    await using target = await openDirectory(queue, `${directory}/ro`);
    const request = { fsType: 'xfs', source: loop.devicePath, attributes: { readonly: true }, target };
    await assert.rejects(mountFilesystem(queue, { ...request, parameters: [] }), { code: 'EACCES' });
    await mountFilesystem(queue, { ...request, parameters: [['ro'], ['norecovery']] });
    assert.deepEqual((await mountAt(`${directory}/ro`))?.superOptions.at(0), 'ro');
  });

  test('X02: says what the filesystem said, and repeats no option', async (t) => {
    const directory = await scratch(t);
    const loop = await attach(await image(directory, 'ext4'), directory);
    await using _keeper = loop.descriptor;
    await mkdir(`${directory}/mnt`);
    await using target = await openDirectory(queue, `${directory}/mnt`);
    const refused: readonly MountParameter[] = [
      ['hunter2'],
      ['hunter2', 'sesame'],
      ['commit', 'hunter2'],
      ['data', 'hunter2'],
      ['errors', 'hunter2'],
      ['commit', '99999999999'],
      ['hunter2 with blanks', "and 'quotes'"],
      ['source', '/dev/hunter2'],
    ];
    for (const parameter of refused) {
      const error = await mountFilesystem(queue, {
        fsType: 'ext4',
        source: loop.devicePath,
        parameters: [['discard'], parameter],
        attributes: {},
        target,
      }).then(
        () => undefined,
        (reason: unknown) => reason,
      );
      assert.ok(error instanceof KernelError, `${parameter}`);
      assert.equal(error.code, 'EINVAL');
      assert.match(error.syscall, /^fsconfig\(FSCONFIG_(SET_FLAG|SET_STRING|CMD_CREATE)\)$/);
      const shown = [error.message, error.stack, error.detail, JSON.stringify(error)].join('\n');
      for (const secret of [...parameter, 'hunter2', 'sesame', '99999999999']) {
        if (!['commit', 'data', 'errors', 'source'].includes(secret)) assert.ok(!shown.includes(secret), shown);
      }
    }
    assert.equal(await mountAt(`${directory}/mnt`), undefined);
  });

  test("the kernel's words are in the error", async (t) => {
    const directory = await scratch(t);
    await mkdir(`${directory}/mnt`);
    await using target = await openDirectory(queue, `${directory}/mnt`);
    const request = { fsType: 'ext4', source: '/dev/nonexistent', attributes: {}, target };
    await assert.rejects(mountFilesystem(queue, { ...request, parameters: [['bogus']] }), {
      syscall: 'fsconfig(FSCONFIG_SET_FLAG)',
      code: 'EINVAL',
      path: '/dev/nonexistent',
      detail: "ext4: Unknown parameter '…'",
      message: "fsconfig(FSCONFIG_SET_FLAG) /dev/nonexistent: ext4: Unknown parameter '…' (EINVAL)",
    });
    await assert.rejects(mountFilesystem(queue, { ...request, parameters: [] }), {
      syscall: 'fsconfig(FSCONFIG_CMD_CREATE)',
      code: 'ENOENT',
    });
    await assert.rejects(mountFilesystem(queue, { ...request, fsType: 'nofs', parameters: [] }), { code: 'ENODEV' });
  });

  test('what is no such filesystem is refused and not touched', async (t) => {
    const directory = await scratch(t);
    const path = await image(directory);
    const loop = await attach(path, directory);
    await using _keeper = loop.descriptor;
    await mkdir(`${directory}/mnt`);
    await using target = await openDirectory(queue, `${directory}/mnt`);
    for (const fsType of filesystems) {
      const request = { fsType, source: loop.devicePath, parameters: [], attributes: {}, target };
      await assert.rejects(mountFilesystem(queue, request), {
        code: 'EINVAL',
        syscall: 'fsconfig(FSCONFIG_CMD_CREATE)',
      });
    }
    assert.ok((await readFile(path)).every((byte) => byte === 0));
  });

  test('T04: a mount that cannot be put in place leaves nothing: no mount, device or descriptor', async (t) => {
    const directory = await scratch(t);
    await writeFile(`${directory}/file`, '');
    const backing = await image(directory, 'ext4');
    const before = await openDescriptors();
    const loop = await attach(backing, directory);
    {
      await using _keeper = loop.descriptor;
      await using target = await openFile(queue, `${directory}/file`, openFlags.O_PATH);
      const request = { fsType: 'ext4', source: loop.devicePath, parameters: [], attributes: {}, target };
      await assert.rejects(mountFilesystem(queue, request), { code: 'EINVAL', syscall: 'move_mount' });
    }
    await detached(loop, directory);
    assert.deepEqual([...(await openDescriptors()).keys()].slice(0, before.size), [...before.keys()]);
  });
});
