import { AdminError } from '../../admin/client.ts';
import { isErrno } from '../../kernel/call/errno.ts';
import { HoldfastError } from '../../volume/errors.ts';
import type { ProblemCode } from './output.ts';

/** The code of an error, for a program that reads it. */
export function codeOf(error: unknown): ProblemCode {
  if (error instanceof HoldfastError || error instanceof AdminError) return error.code;
  return isErrno(error, 'EACCES', 'EPERM') ? 'PERMISSION_DENIED' : 'INTERNAL';
}
