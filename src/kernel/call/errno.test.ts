import assert from 'node:assert/strict';
import { glob, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { isErrno, KernelError } from './errno.ts';

describe('KernelError', () => {
  test('says what was refused, where and why', () => {
    const error = new KernelError({ syscall: 'umount2', errno: 16, path: '/a' });
    assert.equal(error.message, 'umount2 /a: resource busy or locked (EBUSY)');
    assert.deepEqual([error.code, error.errno, error.path, error.detail], ['EBUSY', 16, '/a', undefined]);
  });

  test("prefers the filesystem's own words", () => {
    const error = new KernelError({ syscall: 'fsconfig', errno: 22, detail: 'ext4: no' });
    assert.equal(error.message, 'fsconfig: ext4: no (EINVAL)');
    assert.equal(error.path, undefined);
  });

  test('names what filesystems answer with and libuv does not know, and numbers the rest', () => {
    assert.equal(new KernelError({ syscall: 'mount', errno: 117 }).code, 'EUCLEAN');
    assert.equal(new KernelError({ syscall: 'mount', errno: 74 }).code, 'EBADMSG');
    assert.equal(new KernelError({ syscall: 'mount', errno: 4095 }).code, 'errno 4095');
  });
});

test("isErrno knows our errors and Node's by their code, and nothing else", async () => {
  assert.equal(isErrno(new KernelError({ syscall: 'open', errno: 2 }), 'EEXIST', 'ENOENT'), true);
  const nodes = await readFile('/nonexistent').catch((error: unknown) => error);
  assert.equal(isErrno(nodes, 'ENOENT'), true);
  assert.equal(isErrno(nodes, 'EPERM'), false);
  assert.equal(isErrno({ code: 'ENOENT' }, 'ENOENT'), false);
  assert.equal(isErrno(undefined, 'ENOENT'), false);
});

test('each name that the sources compare with is one that an error can have', async () => {
  // 4095 is the largest number that a system call can return.
  const known = new Set(Array.from({ length: 4096 }, (_, errno) => new KernelError({ syscall: 'open', errno }).code));
  const unknown: string[] = [];
  const sources = fileURLToPath(new URL('../..', import.meta.url));
  for await (const file of glob('**/*.ts', { cwd: sources })) {
    const text = await readFile(join(sources, file), 'utf8');
    for (const [call] of text.matchAll(/\b(isErrno|unlessErrno)\([^()]*/g)) {
      for (const [, name = ''] of call.matchAll(/'(E[A-Z0-9]+)'/g))
        if (!known.has(name)) unknown.push(`${file}: ${name}`);
    }
  }
  assert.deepEqual(unknown, []);
});
