import assert from 'node:assert/strict';
import { access, constants, open, readFile, rm, stat, truncate, writeFile } from 'node:fs/promises';
import { basename } from 'node:path';
import { describe, test } from 'node:test';
import { deviceSizeBytes, refusesWrites, setRefusesWrites } from '../../src/kernel/block/block.ts';
import { detachLoop, listLoops, loopStatus, refreshLoopSize } from '../../src/kernel/block/loop.ts';
import { loopNumber } from '../../src/kernel/block/loop-sysfs.ts';
import { openReadOnly } from '../../src/kernel/call/descriptor.ts';
import { statusOf } from '../../src/kernel/file/path.ts';
import { attach, detached, eventually, image, openDescriptors, queue, run, scratch } from './fixture.ts';

describe('attachLoop', () => {
  test('attaches with everything in one step', async (t) => {
    const directory = await scratch(t);
    const backingPath = await image(directory);
    const label = `${basename(directory)}-é`.padEnd(62, 'x');
    assert.equal(Buffer.byteLength(label), 63);
    const loop = await attach(backingPath, directory, { label, blockSizeBytes: 4096 });
    await using _keeper = loop.descriptor;
    const backing = await statusOf(queue, backingPath);
    assert.deepEqual(await loopStatus(queue, loop.number), {
      number: loop.number,
      devicePath: `/dev/loop${loop.number}`,
      device: { major: 7, minor: loop.number },
      label,
      backingDevice: backing.device,
      backingInode: backing.inode,
      readonly: false,
      autoclear: true,
      directIo: true,
    });
    assert.equal(loopNumber(loop.device), loop.number);
    assert.equal((await readFile(`/sys/block/loop${loop.number}/queue/logical_block_size`, 'utf8')).trim(), '4096');
    assert.equal(await deviceSizeBytes(queue, loop.devicePath), 32n << 20n);
    assert.ok((await listLoops(queue)).some((status) => status.label === label));
  });

  test('passes over a free device that somebody has open for itself alone', async (t) => {
    const directory = await scratch(t);
    const backingPath = await image(directory);
    const free = (await run('losetup', ['--find'])).stdout.trim();
    const holder = await open(free, constants.O_RDONLY | constants.O_EXCL);
    t.after(() => holder.close());
    const loop = await attach(backingPath, directory);
    await using _keeper = loop.descriptor;
    assert.notEqual(loop.devicePath, free);
    assert.ok(await loopStatus(queue, loop.number));
  });

  test('the kernel frees an autoclear device with its last user, and keeps any other until detachLoop', async (t) => {
    const directory = await scratch(t);
    const backingPath = await image(directory);
    const fleeting = await attach(backingPath, directory);
    await fleeting.descriptor[Symbol.asyncDispose]();
    await detached(fleeting, directory);

    const persistent = await attach(backingPath, directory, { autoclear: false });
    await persistent.descriptor[Symbol.asyncDispose]();
    assert.equal((await loopStatus(queue, persistent.number))?.autoclear, false);
    await detachLoop(queue, persistent.number);
    await detached(persistent, directory);
    // A moment later the number may be somebody else's.
    await detachLoop(queue, persistent.number, async (read) => (await read()).label.startsWith(basename(directory)));
  });

  test('PB14: a read-only device beside a writable one refuses writes and shows what the other wrote', async (t) => {
    const directory = await scratch(t);
    const backingPath = await image(directory);
    const writable = await attach(backingPath, directory);
    await using _writable = writable.descriptor;
    const readonly = await attach(backingPath, directory, { readonly: true });
    await using _readonly = readonly.descriptor;
    assert.equal((await loopStatus(queue, readonly.number))?.readonly, true);
    // The kernel lets it be opened for writing, and refuses each write.
    const refused = await open(readonly.devicePath, 'r+');
    await assert.rejects(refused.write('no'), { code: 'EPERM' });
    await refused.close();
    const device = await open(writable.devicePath, 'r+');
    await device.write('seen');
    await device.sync();
    await device.close();
    const reader = await open(readonly.devicePath);
    const { buffer } = await reader.read(Buffer.alloc(4));
    await reader.close();
    assert.equal(buffer.toString(), 'seen');
  });

  test('PB14: a device that is told to refuse writes does so for who has it open already, and forgets it when detached', async (t) => {
    const directory = await scratch(t);
    const backingPath = await image(directory);
    const loop = await attach(backingPath, directory);
    await using _device = loop.descriptor;
    const writer = await open(loop.devicePath, 'r+');
    await writer.write('first');
    assert.equal(refusesWrites(loop.descriptor), false);
    setRefusesWrites(loop.descriptor, true);
    assert.equal(refusesWrites(loop.descriptor), true);
    await assert.rejects(writer.write('second'), { code: 'EPERM' });
    const { buffer } = await writer.read(Buffer.alloc(5), 0, 5, 0);
    assert.equal(buffer.toString(), 'first');
    await writer.close();
    await detachLoop(queue, loop.number);
    assert.equal(refusesWrites(loop.descriptor), false);
  });

  test('twenty callers at once get twenty devices', async (t) => {
    const directory = await scratch(t);
    const paths = await Promise.all(Array.from({ length: 20 }, (_, index) => image(directory, undefined, `i${index}`)));
    const loops = await Promise.all(paths.map((path) => attach(path, directory)));
    assert.equal(new Set(loops.map(({ number }) => number)).size, 20);
    for (const [index, path] of paths.entries()) {
      const status = await loopStatus(queue, loops[index]?.number ?? -1);
      assert.equal(status?.backingInode, (await statusOf(queue, path)).inode);
    }
    await Promise.all(loops.map(({ descriptor }) => descriptor[Symbol.asyncDispose]()));
    for (const loop of loops) await detached(loop, directory);
  });

  test('other processes that take devices at the same time do no harm', async (t) => {
    const directory = await scratch(t);
    const path = await image(directory);
    const theirs = Array.from({ length: 8 }, () => run('losetup', ['--find', '--show', path]));
    const ours = await Promise.all(Array.from({ length: 8 }, () => attach(path, directory)));
    const devices = await Promise.all(theirs);
    const numbers = devices.map(({ stdout }) => Number(stdout.trim().slice('/dev/loop'.length)));
    for (const number of numbers) await detachLoop(queue, number);
    for (const { descriptor } of ours) await descriptor[Symbol.asyncDispose]();
    assert.equal(new Set([...numbers, ...ours.map(({ number }) => number)]).size, 16);
  });

  test('makes the node of a device where /dev lacks it', async (t) => {
    const directory = await scratch(t);
    const path = await image(directory);
    // In a mount namespace of its own, as in a container whose /dev is no devtmpfs.
    const shell = `
      set -e
      mkdir "$1/dev" && mount -t tmpfs dev "$1/dev"
      for node in null zero random urandom loop-control; do cp -a "/dev/$node" "$1/dev/"; done
      mount --move "$1/dev" /dev
      exec "$0" --input-type=module-typescript --eval "$2"`;
    const script = `
      import { DiskQueue } from '${import.meta.resolve('../../src/kernel/call/disk-queue.ts')}';
      import { attachLoop } from '${import.meta.resolve('../../src/kernel/block/loop.ts')}';
      import { statusOf } from '${import.meta.resolve('../../src/kernel/file/path.ts')}';
      const queue = new DiskQueue('test', 2);
      const label = '${basename(directory)}';
      const request = { backing: '${path}', label, readonly: false, autoclear: true, blockSizeBytes: 512 };
      const { devicePath, device, descriptor } = await attachLoop(queue, request);
      const { represents } = await statusOf(queue, devicePath);
      console.log(represents.major, represents.minor === device.minor, devicePath);
      await descriptor[Symbol.asyncDispose]();`;
    const options = ['--mount', '--propagation', 'private', 'sh', '-c', shell, process.execPath, directory, script];
    const { stdout } = await run('unshare', options);
    assert.match(stdout, /^7 true \/dev\/loop[0-9]+\n$/);
  });

  test('says why it cannot, and leaves nothing behind', async (t) => {
    const directory = await scratch(t);
    const path = await image(directory);
    await (await attach(path, directory)).descriptor[Symbol.asyncDispose]();
    const before = await openDescriptors();
    await assert.rejects(attach(`${directory}/missing`, directory), { code: 'ENOENT', path: `${directory}/missing` });
    await assert.rejects(attach(directory, directory), { code: 'EISDIR' });
    await assert.rejects(attach(directory, directory, { readonly: true }), { code: 'EINVAL' });
    await assert.rejects(attach(path, directory, { blockSizeBytes: 1000 }), { code: 'EINVAL' });
    await assert.rejects(attach(path, directory, { label: 'x'.repeat(64) }), RangeError);
    assert.deepEqual([...(await openDescriptors()).keys()], [...before.keys()]);
    await eventually(async () => !(await listLoops(queue)).some(({ label }) => label.startsWith(basename(directory))));
  });
});

describe('an attached device', () => {
  test('T04: detachLoop on one in use leaves it to the last user, who makes the kernel detach it', async (t) => {
    const directory = await scratch(t);
    const loop = await attach(await image(directory), directory, { autoclear: false });
    await detachLoop(queue, loop.number);
    assert.equal((await loopStatus(queue, loop.number))?.autoclear, true);
    await loop.descriptor[Symbol.asyncDispose]();
    await detached(loop, directory);
  });

  test('grows with its file when it is told to', async (t) => {
    const directory = await scratch(t);
    const path = await image(directory);
    const loop = await attach(path, directory);
    await using _keeper = loop.descriptor;
    await truncate(path, 64 << 20);
    assert.equal(await deviceSizeBytes(queue, loop.devicePath), 32n << 20n);
    await refreshLoopSize(queue, loop.number);
    assert.equal(await deviceSizeBytes(queue, loop.devicePath), 64n << 20n);
  });

  test('is not needed to answer: no such device, or none attached, is no error', async () => {
    assert.equal(await loopStatus(queue, 1_000_000), undefined);
    await detachLoop(queue, 1_000_000);
    await assert.rejects(access('/dev/loop1000000'));
    await assert.rejects(refreshLoopSize(queue, 1_000_000), { code: 'ENOENT' });
  });

  test('numbers of other devices are no loop numbers', () => {
    assert.equal(loopNumber({ major: 8, minor: 1 }), undefined);
    assert.equal(loopNumber({ major: 7, minor: 3 }), 3);
  });
});

test('deviceSizeBytes knows sizes beyond 2^53 and refuses what is no device', async (t) => {
  const directory = await scratch(t);
  await writeFile(`${directory}/file`, '');
  await assert.rejects(deviceSizeBytes(queue, `${directory}/file`), { code: 'ENOTTY', syscall: 'ioctl(BLKGETSIZE64)' });
  await assert.rejects(deviceSizeBytes(queue, `${directory}/missing`), { code: 'ENOENT' });
  // tmpfs has files larger than ext4's.
  const path = `/dev/shm/${basename(directory)}`;
  t.after(() => rm(path));
  const sizeBytes = (1n << 60n) + 4096n;
  await run('truncate', ['-s', String(sizeBytes), path]);
  const loop = await attach(path, directory);
  await using _keeper = loop.descriptor;
  await using device = await openReadOnly(queue, loop.devicePath);
  assert.equal(await deviceSizeBytes(queue, device), sizeBytes);
  assert.equal((await stat(path, { bigint: true })).size, sizeBytes);
});
