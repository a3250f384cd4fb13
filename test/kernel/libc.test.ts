import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { describe, test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { openFile } from '../../src/kernel/call/descriptor.ts';
import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import { isErrno, KernelError } from '../../src/kernel/call/errno.ts';
import { invoke, invokeNow, type Lent, libcCall } from '../../src/kernel/call/libc.ts';
import { useWorkerThreads } from '../../src/kernel/call/workers.ts';
import { scratch } from './fixture.ts';

useWorkerThreads(16);
const wide = new DiskQueue('wide', 200);

const openCall = libcCall<readonly [string, number, number]>('int open(const char *path, int flags, uint mode)');
const closeCall = libcCall<readonly [number]>('int close(int fd)');
const mkdirCall = libcCall<readonly [string, number]>('int mkdir(const char *path, uint mode)');
const preadCall = libcCall<readonly [Lent, Uint8Array, number, number]>(
  'long pread(int fd, void *memory, size_t size, int64_t offset)',
);

describe('calls to libc', () => {
  test('each of many concurrent calls gets its own errno, and a success none', async () => {
    const kinds: readonly (readonly [string | undefined, () => Promise<number>])[] = [
      ['ENOENT', () => invoke(wide, openCall, ['/nonexistent', 0, 0])],
      ['EISDIR', () => invoke(wide, openCall, ['/var', 1, 0])],
      ['ENOTDIR', () => invoke(wide, openCall, ['/etc/passwd/x', 0, 0])],
      ['EBADF', () => invoke(wide, closeCall, [-1])],
      ['EEXIST', () => invoke(wide, mkdirCall, ['/var', 0o700])],
      ['ENAMETOOLONG', () => invoke(wide, openCall, [`/${'x'.repeat(300)}`, 0, 0])],
      [undefined, () => invoke(wide, libcCall<readonly []>('int getpid(void)'), [])],
    ];
    const calls = Array.from({ length: 3500 }, (_, index) => kinds[(index * 31) % kinds.length] ?? kinds[0]);
    const codes = await Promise.all(
      calls.map(async (kind) => {
        // Errors on this thread, in between, must not be mistaken for theirs.
        assert.throws(() => invokeNow(closeCall, [-1]), { code: 'EBADF' });
        return kind?.[1]().then(
          () => undefined,
          (error: unknown) => (error instanceof KernelError ? error.code : error),
        );
      }),
    );
    assert.deepEqual(
      codes,
      calls.map((kind) => kind?.[0]),
    );
  });

  test('memory given to a call stays where it is until the call is over, whatever the collector does', async (t) => {
    const directory = await scratch(t);
    const bytes = 4096;
    const blocks = 64;
    const content = Buffer.alloc(blocks * bytes);
    for (let block = 0; block < blocks; block++) content.fill(block, block * bytes, (block + 1) * bytes);
    await writeFile(`${directory}/file`, content);
    setFlagsFromString('--expose-gc');
    const collect: unknown = runInNewContext('gc');
    assert.ok(typeof collect === 'function');
    await using file = await openFile(wide, `${directory}/file`, 0);
    const read = async (block: number, size: number) => {
      // Small ones too: V8 would keep those within its own, moving heap.
      const memory = new Uint8Array(size);
      const call = invoke(wide, preadCall, [file, memory, size, block * bytes]);
      if (block % 8 === 0) collect();
      assert.equal(await call, size);
      return memory.every((byte) => byte === block);
    };
    const reads = Array.from({ length: 1024 }, (_, index) => read(index % blocks, index % 3 === 0 ? 16 : bytes));
    assert.ok((await Promise.all(reads)).every((isRight) => isRight));
  });

  test('a string is copied before the call is queued, however long it is', async (t) => {
    const directory = await scratch(t);
    const names = Array.from({ length: 300 }, (_, index) => `${directory}/${'ä'.repeat(100)}${index}`);
    await Promise.all(names.map((name) => invoke(wide, mkdirCall, [name, 0o700])));
    await assert.rejects(invoke(wide, mkdirCall, [names[7] ?? '', 0o700]), { code: 'EEXIST' });
    const tooLong = `${directory}/${'x/'.repeat(200_000)}`;
    await assert.rejects(invoke(wide, mkdirCall, [tooLong, 0o700]), { code: 'ENAMETOOLONG' });
  });

  test('a NUL in a path is refused: C would take the path to end there', async () => {
    await assert.rejects(openFile(wide, '/etc\0/shadow', 0), (error) => isErrno(error, 'EINVAL'));
    assert.throws(() => invokeNow(openCall, ['/etc/passwd\0x', 0, 0]), { code: 'EINVAL' });
  });

  test('64-bit numbers arrive whole', async (t) => {
    const directory = await scratch(t);
    await writeFile(`${directory}/file`, 'x');
    const lseek = libcCall<readonly [Lent, bigint, number]>('int64_t lseek(int fd, int64_t offset, int whence)');
    await using file = await openFile(wide, `${directory}/file`, 0);
    const offset = (1n << 42n) + 3n;
    assert.equal(BigInt(invokeNow(lseek, [file, offset, 0])), offset);
  });
});
