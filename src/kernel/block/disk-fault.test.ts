import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { isErrno, KernelError } from '../call/errno.ts';
import { diskFaultOf } from './disk-fault.ts';

/** The error of node:fs: libuv has no name for the number. */
function nodesOwn(errno: number): Error {
  const code = `Unknown system error ${-errno}`;
  return Object.assign(new Error(`${code}: ${code}, fsync`), { errno: -errno, code, syscall: 'fsync' });
}

describe('diskFaultOf', () => {
  test('knows a sick disk by the number, from the kernel layer and from node:fs', () => {
    for (const [errno, words] of [
      [67, 'its disk has lost its connection (ENOLINK)'],
      [117, 'its filesystem is damaged (EUCLEAN)'],
      [116, 'its filesystem is gone (ESTALE)'],
      [5, 'its disk or filesystem answers with I/O errors (EIO)'],
    ] as const) {
      assert.equal(diskFaultOf(new KernelError({ syscall: 'fsync', errno })), words);
      if (errno !== 5) assert.equal(diskFaultOf(nodesOwn(errno)), words);
    }
    assert.ok(isErrno(nodesOwn(122), 'EDQUOT'));
  });

  test('says nothing of a disk that is full, of a missing file, of a kernel without the filesystem, or of our own errors', () => {
    for (const errno of [2, 13, 16, 22, 28, 122]) {
      assert.equal(diskFaultOf(new KernelError({ syscall: 'open', errno })), undefined);
    }
    assert.equal(diskFaultOf(new KernelError({ syscall: 'fsopen', errno: 19 })), undefined);
    assert.equal(diskFaultOf(Object.assign(new Error('x'), { code: 'EIO' })), undefined);
    assert.equal(diskFaultOf(undefined), undefined);
  });
});
