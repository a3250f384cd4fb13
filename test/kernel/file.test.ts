import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { describe, test } from 'node:test';
import { openReadOnly } from '../../src/kernel/call/descriptor.ts';
import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import {
  allocate,
  DirectorySync,
  readAt,
  readAtMost,
  readWhatCan,
  syncDirectory,
  syncFile,
} from '../../src/kernel/file/file.ts';
import { openDirectory, statusOf } from '../../src/kernel/file/path.ts';
import { mountFilesystem } from '../../src/kernel/mount/mount.ts';
import { attach, image, openDescriptors, queue, scratch } from './fixture.ts';

describe('allocate', () => {
  test('gives a file all its blocks, and keeps what is in it', async (t) => {
    const directory = await scratch(t);
    await writeFile(`${directory}/file`, 'data');
    const sizeBytes = 16n << 20n;
    await allocate(queue, `${directory}/file`, sizeBytes);
    const status = await statusOf(queue, `${directory}/file`);
    assert.equal(status.sizeBytes, sizeBytes);
    assert.ok(status.allocatedBytes >= sizeBytes);
    assert.equal((await readFile(`${directory}/file`, 'utf8')).slice(0, 5), 'data\0');
    await allocate(queue, `${directory}/file`, sizeBytes);
  });

  test('says that the disk is full, and that a size is beyond the filesystem, above 2^53 as well', async (t) => {
    const directory = await scratch(t);
    const loop = await attach(await image(directory, 'ext4'), directory);
    await using _keeper = loop.descriptor;
    await mkdir(`${directory}/mnt`);
    await using target = await openDirectory(queue, `${directory}/mnt`);
    const mount = { fsType: 'ext4', source: loop.devicePath, parameters: [], attributes: {}, target } as const;
    await mountFilesystem(queue, mount);
    const path = `${directory}/mnt/file`;
    await writeFile(path, '');
    await assert.rejects(allocate(queue, path, 1n << 30n), { code: 'ENOSPC', path });
    await assert.rejects(allocate(queue, path, (1n << 62n) + 1n), { code: 'EFBIG' });
    await assert.rejects(allocate(queue, path, 0n), { code: 'EINVAL' });
    await assert.rejects(allocate(queue, `${directory}/missing`, 1n), { code: 'ENOENT' });
  });
});

test('syncFile syncs files and directories, and says what is missing', async (t) => {
  const directory = await scratch(t);
  await writeFile(`${directory}/file`, 'x');
  const before = await openDescriptors();
  await syncFile(queue, `${directory}/file`);
  await syncFile(queue, directory);
  await assert.rejects(syncFile(queue, `${directory}/missing`), { code: 'ENOENT' });
  assert.deepEqual([...(await openDescriptors()).keys()], [...before.keys()]);
});

/** Tells when each call to the kernel gets its worker thread: open, fsync, and the try of a change, for every sync. */
class WatchedQueue extends DiskQueue {
  calls = 0;
  onCall: (call: number) => void = () => {};

  override run<T>(work: () => Promise<T>): Promise<T> {
    return super.run(() => {
      this.onCall(++this.calls);
      return work();
    });
  }
}

test('a directory of a filesystem without attributes, as NFS, is synced too', async (t) => {
  const directory = await scratch(t);
  const root = `${directory}/mnt`;
  await mkdir(root);
  execFileSync('mount', ['-t', 'ramfs', 'none', root]);
  await mkdir(`${root}/new`);
  await syncDirectory(queue, root);
});

describe('DirectorySync', () => {
  test('those who come before it begins share one', async (t) => {
    const directory = await scratch(t);
    const syncs = new DirectorySync();
    const watched = new WatchedQueue('watched', 1);
    const calls = [syncs.sync(watched, directory), syncs.sync(watched, directory)];
    watched.onCall = (call) => {
      if (call === 1) calls.push(syncs.sync(watched, directory));
    };
    await Promise.all(calls);
    await Promise.all(calls);
    assert.equal(calls.length, 3);
    assert.equal(watched.calls, 3, 'open, fsync, the try of a change');
  });

  test('who comes after it began gets the next one, and shares that', async (t) => {
    const directory = await scratch(t);
    const syncs = new DirectorySync();
    const watched = new WatchedQueue('watched', 4);
    const later: Promise<void>[] = [];
    const order: string[] = [];
    watched.onCall = (call) => {
      if (call !== 2) return;
      for (const name of ['second', 'third']) {
        later.push(syncs.sync(watched, directory).then(() => void order.push(name)));
      }
    };
    await syncs.sync(watched, directory).then(() => order.push('first'));
    assert.equal(later.length, 2);
    await Promise.all(later);
    assert.deepEqual(order, ['first', 'second', 'third']);
    assert.equal(watched.calls, 6);
    await syncs.sync(watched, directory);
    assert.equal(watched.calls, 9, 'nothing is kept from before');
  });

  test('a persistent directory is opened once, and let go at the end', async (t) => {
    const directory = await scratch(t);
    const syncs = new DirectorySync([directory]);
    const watched = new WatchedQueue('watched', 1);
    for (let sync = 0; sync < 3; sync++) await syncs.sync(watched, directory);
    assert.equal(watched.calls, 8, 'open, a look at its filesystem, and three times fsync and the try of a change');
    const before = (await openDescriptors()).size;
    await syncs.close();
    assert.equal((await openDescriptors()).size, before - 1);
  });

  test('another directory is another matter, and a failure is told to those who shared it only', async (t) => {
    const directory = await scratch(t);
    await mkdir(`${directory}/a`);
    const syncs = new DirectorySync();
    const failing = [syncs.sync(queue, `${directory}/b`), syncs.sync(queue, `${directory}/b`)];
    const fine = syncs.sync(queue, `${directory}/a`);
    for (const failure of failing) await assert.rejects(failure, { code: 'ENOENT' });
    await fine;
    await mkdir(`${directory}/b`);
    await syncs.sync(queue, `${directory}/b`);
  });
});

/** The end of memory that can be read, with nothing behind it: of /proc/self/mem the kernel reads up to there, as of a disk up to a sector that is lost. */
function endOfMemory(): number {
  const areas = readFileSync('/proc/self/maps', 'utf8')
    .trim()
    .split('\n')
    .map((line) => {
      const [, start = '', end = '', mode = ''] = /^([0-9a-f]+)-([0-9a-f]+) (....)/.exec(line) ?? [];
      return { start: Number.parseInt(start, 16), end: Number.parseInt(end, 16), isReadable: mode.startsWith('r') };
    });
  const found = areas.find(
    ({ end, isReadable }, index) => isReadable && (areas[index + 1]?.start ?? 0) > end + (1 << 20),
  );
  return found?.end ?? assert.fail('there is no gap in the memory of this process');
}

test('DK13: what cannot be read is an error, and not an end before which there are only zeros', async () => {
  await using memory = await openReadOnly(queue, '/proc/self/mem');
  const offsetBytes = endOfMemory() - 4096;
  assert.equal((await readAt(queue, memory, { offsetBytes, lengthBytes: 4096 })).length, 4096);
  for (const read of [readAt, readAtMost]) {
    await assert.rejects(read(queue, memory, { offsetBytes, lengthBytes: 8192 }), { code: 'EIO' });
  }
});

test('DK10: what is kept twice is read as far as it can be, and what cannot be read is not zeros', async () => {
  await using memory = await openReadOnly(queue, '/proc/self/mem');
  const offsetBytes = endOfMemory() - 4096;
  const known = await readAt(queue, memory, { offsetBytes, lengthBytes: 4096 });
  const found = await readWhatCan(queue, memory, { offsetBytes, lengthBytes: 12_288 });
  assert.deepEqual(found, Buffer.concat([known, Buffer.alloc(8192, 0xff)]));
});

test('a file that ends before is an error, unless who reads it says that it may', async (t) => {
  const directory = await scratch(t);
  await writeFile(`${directory}/file`, 'data');
  await using file = await openReadOnly(queue, `${directory}/file`);
  assert.equal(`${await readAt(queue, file, { offsetBytes: 1, lengthBytes: 3 })}`, 'ata');
  assert.equal(`${await readAtMost(queue, file, { offsetBytes: 1, lengthBytes: 9 })}`, 'ata');
  assert.equal((await readAtMost(queue, file, { offsetBytes: 9, lengthBytes: 9 })).length, 0);
  await assert.rejects(readAt(queue, file, { offsetBytes: 1, lengthBytes: 4 }), RangeError);
});
