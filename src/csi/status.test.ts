import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { run } from '../command/run.ts';
import { KernelError } from '../kernel/call/errno.ts';
import * as errors from '../volume/errors.ts';
import { toStatus } from './status.ts';

describe('toStatus', () => {
  for (const [type, code] of [
    [errors.InvalidArgument, 'INVALID_ARGUMENT'],
    [errors.NotFound, 'NOT_FOUND'],
    [errors.AlreadyExists, 'ALREADY_EXISTS'],
    [errors.FailedPrecondition, 'FAILED_PRECONDITION'],
    [errors.ResourceExhausted, 'RESOURCE_EXHAUSTED'],
    [errors.OutOfRange, 'OUT_OF_RANGE'],
    [errors.Aborted, 'ABORTED'],
    [errors.Unavailable, 'UNAVAILABLE'],
    [errors.DataLoss, 'DATA_LOSS'],
    [errors.InternalError, 'INTERNAL'],
  ] as const) {
    test(`E01 ${type.name} is ${code}, with its message`, () => {
      assert.deepEqual(toStatus(new type('what happened')), { code, message: 'what happened', stack: undefined });
    });
  }

  test('E01 a message is never empty', () => {
    for (const error of [new errors.NotFound(''), new Error(''), undefined, null, '', {}]) {
      assert.notEqual(toStatus(error).message, '');
    }
  });

  test('X03 an error nobody thought of keeps its message and stack from the caller, and gives them to the log', () => {
    const error = new TypeError('hunter2 is not a function');
    const status = toStatus(error);
    assert.equal(status.code, 'INTERNAL');
    assert.ok(!status.message.includes('hunter2') && !status.message.includes('status.test'));
    assert.equal(status.stack, error.stack);
    assert.ok(!JSON.stringify(toStatus('hunter2')).includes('hunter2'), 'a thrown string is nobody to trust either');
  });

  test('CV20 no space and no quota are RESOURCE_EXHAUSTED, from the kernel layer and from node:fs', () => {
    for (const errno of [28, 122]) {
      const status = toStatus(new KernelError({ syscall: 'fallocate', errno, path: '/pool/tmp/x' }));
      assert.equal(status.code, 'RESOURCE_EXHAUSTED');
      assert.match(status.message, /fallocate.*\/pool\/tmp\/x.*(ENOSPC|EDQUOT)/);
    }
    const words = { code: 'ENOSPC', errno: -28, syscall: 'write', path: '/pool/tmp/x' };
    const status = toStatus(Object.assign(new Error('ENOSPC: no space left on device, write'), words));
    assert.deepEqual(status, {
      code: 'RESOURCE_EXHAUSTED',
      message: 'write /pool/tmp/x: no space left on device (ENOSPC): delete volumes or give the pool more space.',
      stack: undefined,
    });
  });

  test('an error of the disk names the volume that the call is about, once, and says what to do', () => {
    const error = new KernelError({ syscall: 'openat2', errno: 5, path: '/pool/volumes' });
    assert.equal(
      toStatus(error, 'volume vol-a').message,
      "volume vol-a: openat2 /pool/volumes: i/o error (EIO): the disk or its filesystem has failed; see the node's kernel log.",
    );
    assert.equal(toStatus(new errors.NotFound('no volume vol-a'), 'volume vol-a').message, 'no volume vol-a');
  });

  test('T03 of a disk that failed it is not known what was done: the caller asks again, and not elsewhere', () => {
    for (const errno of [5, 6, 19, 30, 52, 61, 62, 67, 74, 84, 107, 108, 110, 116, 117, 121, 123]) {
      assert.equal(toStatus(new KernelError({ syscall: 'fsync', errno, path: '/pool/volumes' })).code, 'UNAVAILABLE');
    }
  });

  test('any other KernelError is INTERNAL, with the call, the path and the name of the number', () => {
    const status = toStatus(new KernelError({ syscall: 'openat2', errno: 20, path: '/pool/volumes' }));
    assert.equal(status.code, 'INTERNAL');
    assert.match(status.message, /openat2.*\/pool\/volumes.*ENOTDIR/);
    assert.equal(status.stack, undefined);
  });

  test('X02 what a filesystem said about a mount flag stays out', () => {
    const detail = "ext4: Unknown parameter 'hunter2'";
    const { message } = toStatus(new KernelError({ syscall: 'fsconfig', errno: 22, path: '/dev/loop7', detail }));
    assert.equal(message, 'fsconfig /dev/loop7: refused (EINVAL): see the log of the driver on the node.');
  });

  test('a program that is missing is named', async () => {
    const error = await run('mkfs.nosuch', []).catch((reason: unknown) => reason);
    const status = toStatus(error);
    assert.equal(status.code, 'INTERNAL');
    assert.match(status.message, /mkfs\.nosuch is not installed/);
  });

  test('a message fits into a header, whatever is in it', () => {
    const { message } = toStatus(new errors.NotFound('😀€'.repeat(10_000)));
    assert.ok(Buffer.byteLength(message) <= 2060 && message.endsWith('…'));
    assert.ok(encodeURI(message).length < 8192);
    assert.doesNotThrow(() => encodeURI(toStatus(new errors.NotFound('half a \ud83d pair')).message));
  });
});
