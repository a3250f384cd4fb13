import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { basename } from 'node:path';
import { describe, test } from 'node:test';
import { loopNumber } from '../../src/kernel/block/loop-sysfs.ts';
import { statusOf } from '../../src/kernel/file/path.ts';
import { unmount } from '../../src/kernel/mount/mount.ts';
import type { Mount } from '../../src/kernel/mount/mount-table.ts';
import { findHolders, type SearchScope } from '../../src/kernel/process/holders.ts';
import { parseMappings } from '../../src/kernel/process/process.ts';
import type { Holder } from '../../src/volume/holder.ts';
import { Child, startNamespace } from '../support/child.ts';
import { attach, eventually, filesystems, queue, run, scratch } from './fixture.ts';
import { bind, mountAt, mountNew } from './mounting.ts';

/** Runs Python until its standard input ends. */
function python(script: string, ...args: string[]): Promise<Child> {
  const lines = ['import mmap, os, sys', script, 'print("ready", flush=True)', 'sys.stdin.read()'];
  return Child.start(['python3', '-c', lines.join('\n'), ...args], { stdin: 'pipe', tells: true });
}

/** @param apart what the thread shares with no other one (unshare(2)) */
function inThread(apart: number, script: string): string {
  return [
    'import ctypes, threading',
    'came, stay = threading.Event(), threading.Event()',
    `def work(): ctypes.CDLL(None).unshare(${apart}); kept = ${script}; came.set(); stay.wait()`,
    'threading.Thread(target=work, daemon=True).start()',
    'came.wait()',
  ].join('\n');
}

async function deviceOf({ source }: Mount) {
  const { represents } = await statusOf(queue, source);
  assert.ok(represents !== undefined && loopNumber(represents) !== undefined);
  return { device: represents, devicePath: source };
}

async function search(mount: Mount, scope: SearchScope = 'all', busyMountId?: bigint): Promise<readonly Holder[]> {
  const { holders, isComplete } = await findHolders({ devices: [await deviceOf(mount)], busyMountId }, scope, 60_000);
  assert.ok(isComplete);
  return holders;
}

async function mounted(directory: string, fsType: (typeof filesystems)[number], name = 'mnt'): Promise<Mount> {
  const path = await mountNew(directory, fsType, { name });
  await writeFile(`${path}/file`, 'x'.repeat(4096));
  const mount = await mountAt(path);
  assert.ok(mount !== undefined);
  return mount;
}

/** Others on this machine look at its loop devices for a moment now and then. */
function withoutLookers(holders: readonly Holder[]): Holder[] {
  return holders.filter(({ kind, path }) => kind !== 'process' || !path.startsWith('/dev/loop'));
}

function processes(holders: readonly Holder[]): Holder[] {
  return withoutLookers(holders).filter(({ kind }) => kind === 'process');
}

describe('findHolders', () => {
  for (const fsType of filesystems) {
    const holding: Readonly<Record<string, { script: string; path: string }>> = {
      'an open file': { script: 'kept = open(sys.argv[1] + "/file")', path: '/file' },
      'a file open by path only': { script: 'kept = os.open(sys.argv[1] + "/file", os.O_PATH)', path: '/file' },
      'the directory that it works in': { script: 'os.chdir(sys.argv[1])', path: '' },
      'a thread that works in another directory': { script: inThread(0x200, 'os.chdir(sys.argv[1])'), path: '' },
      'a file that only a thread has open': {
        script: inThread(0x400, 'os.open(sys.argv[1] + "/file", os.O_RDONLY)'),
        path: '/file',
      },
      'a file that it has open, and whose first thread has ended': {
        script: [
          'import ctypes, threading, time',
          'kept = os.open(sys.argv[1] + "/file", os.O_RDONLY)',
          'def work(): time.sleep(0.2); print("ready", flush=True); sys.stdin.read(); os._exit(0)',
          'threading.Thread(target=work, daemon=True).start()',
          // SYS_exit of x86-64 and of arm64: ends this thread alone.
          'ctypes.CDLL(None).syscall(60 if os.uname().machine == "x86_64" else 93, 0)',
        ].join('\n'),
        path: '/file',
      },
      'its root': { script: 'os.chroot(sys.argv[1])', path: '' },
      'memory that is a file': {
        script: [
          'file = os.open(sys.argv[1] + "/file", os.O_RDWR)',
          'kept = mmap.mmap(file, 4096)',
          // Python keeps a copy of the descriptor.
          'os.closerange(3, 64)',
        ].join('\n'),
        path: '/file',
      },
    };
    for (const [what, { path, script }] of Object.entries(holding)) {
      test(`${fsType}: a process with ${what}`, async (t) => {
        const mount = await mounted(await scratch(t), fsType);
        await using child = await python(script, mount.target);
        const { pid } = child;
        const expected = { kind: 'process', pid, command: 'python3', path: `${mount.target}${path}` };
        assert.deepEqual(processes(await search(mount)), [expected]);
        assert.deepEqual(await search(mount, 'all', mount.id), [expected]);
        assert.deepEqual(await search(mount, 'mounts'), [
          { kind: 'mount', path: mount.target, namespaceOf: undefined },
        ]);
      });
    }

    test(`${fsType}: its mounts, and what is mounted on it`, async (t) => {
      const directory = await scratch(t);
      const mount = await mounted(directory, fsType);
      await mkdir(`${directory}/twin`);
      await bind(mount.target, `${directory}/twin`);
      await mkdir(`${mount.target}/upon`);
      await run('mount', ['-t', 'tmpfs', 'tmpfs', `${mount.target}/upon`]);
      const paths = withoutLookers(await search(mount)).map(({ path }) => path);
      assert.deepEqual(paths.sort(), [mount.target, `${mount.target}/upon`, `${directory}/twin`]);
      // Of these only one keeps the first mount from being undone.
      assert.deepEqual(await search(mount, 'all', mount.id), [
        { kind: 'mount', path: `${mount.target}/upon`, namespaceOf: undefined },
      ]);
    });

    test(`${fsType}: a mount that only another namespace still has`, async (t) => {
      const mount = await mounted(await scratch(t), fsType);
      const device = await deviceOf(mount);
      await using child = await startNamespace(mount.target);
      await unmount(queue, mount.target);
      const { holders } = await findHolders({ devices: [device] }, 'mounts', 60_000);
      const namespaceOf = { pid: child.pid, command: 'sleep' };
      assert.deepEqual(holders, [{ kind: 'mount', path: mount.target, namespaceOf }]);
    });

    test(`${fsType}: a loop device over a file on it`, async (t) => {
      const directory = await scratch(t);
      const mount = await mounted(directory, fsType);
      const { descriptor, devicePath } = await attach(`${mount.target}/file`, directory);
      assert.deepEqual(await search(mount, 'all', mount.id), [{ kind: 'device', path: devicePath }]);
      await descriptor[Symbol.asyncDispose]();
    });
  }

  test('only who keeps the busy mount, not who uses the volume elsewhere', async (t) => {
    const directory = await scratch(t);
    const mount = await mounted(directory, 'ext4');
    await mkdir(`${directory}/twin`);
    await bind(mount.target, `${directory}/twin`);
    const twin = await mountAt(`${directory}/twin`);
    await using here = await python('os.chdir(sys.argv[1])', mount.target);
    await using there = await python('os.chdir(sys.argv[1])', `${directory}/twin`);
    const pidsOf = (holders: readonly Holder[]) => holders.map((each) => (each.kind === 'process' ? each.pid : 0));
    assert.deepEqual(pidsOf(await search(mount, 'all', mount.id)), [here.pid]);
    assert.deepEqual(pidsOf(await search(mount, 'all', twin?.id)), [there.pid]);
    assert.deepEqual(pidsOf(processes(await search(mount))).sort(), [here.pid, there.pid].sort());
  });

  test('a process with a removed file on a filesystem that was lazily unmounted', async (t) => {
    const mount = await mounted(await scratch(t), 'ext4');
    const device = await deviceOf(mount);
    await using child = await python(
      'kept = open(sys.argv[1] + "/file"); os.unlink(sys.argv[1] + "/file")',
      mount.target,
    );
    await run('umount', ['--lazy', mount.target]);
    const { holders } = await findHolders({ devices: [device] }, 'all', 60_000);
    assert.equal(holders.length, 1);
    assert.deepEqual({ ...holders[0], path: '' }, { kind: 'process', pid: child.pid, command: 'python3', path: '' });
  });

  test('a block device: its node on a file, and a process that has it open', async (t) => {
    const directory = await scratch(t);
    const mount = await mounted(directory, 'ext4');
    const device = await deviceOf(mount);
    await writeFile(`${directory}/node`, '');
    await bind(device.devicePath, `${directory}/node`);
    await using child = await python('kept = os.open(sys.argv[1], os.O_RDONLY)', `${directory}/node`);
    const node = await mountAt(`${directory}/node`);
    const { holders } = await findHolders({ devices: [device], busyMountId: node?.id }, 'all', 60_000);
    assert.deepEqual(holders, [{ kind: 'process', pid: child.pid, command: 'python3', path: `${directory}/node` }]);
    const all = await findHolders({ devices: [device] }, 'all', 60_000);
    assert.ok(all.holders.some((each) => each.kind === 'mount' && each.path === `${directory}/node`));
  });

  test('a filesystem that has shut down is not asked', async (t) => {
    const mount = await mounted(await scratch(t), 'xfs');
    await using child = await python('os.chdir(sys.argv[1])', mount.target);
    const goingDown =
      'import fcntl, os, struct, sys; fcntl.ioctl(os.open(sys.argv[1], os.O_RDONLY), 0x8004587d, struct.pack("I", 2))';
    await run('python3', ['-c', goingDown, mount.target]);
    const expected = { kind: 'process', pid: child.pid, command: 'python3', path: mount.target };
    assert.deepEqual(await search(mount, 'all', mount.id), [expected]);
  });

  test('a process that hangs in the kernel is named, and is not waited for', async (t) => {
    const mount = await mounted(await scratch(t), 'ext4');
    await using child = await Child.start(['sh', '-c', 'read x; echo x >new'], { cwd: mount.target, stdin: 'pipe' });
    await using _frozen = await frozen(mount.target);
    child.endInput('x\n');
    await eventually(async () => (await run('ps', ['-o', 'stat=', '-p', `${child.pid}`])).stdout.startsWith('D'));
    const found = processes(await search(mount));
    assert.deepEqual(found, [{ kind: 'process', pid: child.pid, command: 'sh', path: mount.target }]);
  });

  test('without time it tells what it has, and that this is not all', async (t) => {
    const mount = await mounted(await scratch(t), 'ext4');
    const found = await findHolders({ devices: [await deviceOf(mount)] }, 'all', 0);
    assert.deepEqual(found, { holders: [], isComplete: false });
  });
});

async function frozen(path: string): Promise<AsyncDisposable> {
  await run('fsfreeze', ['--freeze', path]);
  return { [Symbol.asyncDispose]: async () => void (await run('fsfreeze', ['--unfreeze', path])) };
}

test('mappings of files, and none of memory that is no file', () => {
  const text = [
    '55d0a3c00000-55d0a3c28000 r--p 00000000 fe:00 1234                       /usr/bin/a name (deleted)',
    '08048000-08056000 rw-p 00000000 07:0b 12                                 /mnt/x',
    '7ffd1b5e0000-7ffd1b601000 rw-p 00000000 00:00 0                          [stack]',
    '7f0000000000-7f0000001000 rw-p 00000000 00:00 0 ',
    '',
  ].join('\n');
  assert.deepEqual(parseMappings(5, text), [
    {
      link: '/proc/5/map_files/55d0a3c00000-55d0a3c28000',
      device: { major: 254, minor: 0 },
      path: '/usr/bin/a name (deleted)',
    },
    { link: '/proc/5/map_files/8048000-8056000', device: { major: 7, minor: 11 }, path: '/mnt/x' },
  ]);
  assert.equal(basename(parseMappings(5, text)[1]?.path ?? ''), 'x');
});
