import assert from 'node:assert/strict';
import { constants } from 'node:os';
import { describe, test } from 'node:test';
import { KernelError } from '../../kernel/call/errno.ts';
import { Aborted } from '../../volume/errors.ts';
import { asConcurrentChange } from './concurrent-change.ts';

const { EINVAL, EIO, ENOENT } = constants.errno;

function refused(syscall: string, errno: number, path: string): KernelError {
  return new KernelError({ syscall, errno, path });
}

describe('asConcurrentChange', () => {
  for (const [what, error] of Object.entries({
    'the path itself': refused('move_mount', ENOENT, '/k/p/v'),
    'in it': refused('mknodat', ENOENT, '/k/p/v/vol-x'),
    'on the way': refused('openat2', ENOENT, '/k/p'),
    'no mount any more': refused('umount2', EINVAL, '/k/p/v'),
  })) {
    test(`${what}: somebody was there`, () => assert.ok(asConcurrentChange(error, '/k/p/v') instanceof Aborted));
  }

  for (const [what, error] of Object.entries({
    'another path': refused('mkdirat', ENOENT, '/k/p/w'),
    'a path that only begins alike': refused('mkdirat', ENOENT, '/k/p/v2'),
    'a sick disk': refused('mkdirat', EIO, '/k/p/v'),
    'an argument of ours': refused('move_mount', EINVAL, '/k/p/v'),
    'no error of the kernel': new Error('x'),
  })) {
    test(`${what} stays as it is`, () => assert.equal(asConcurrentChange(error, '/k/p/v'), error));
  }
});
