import * as grpc from '@grpc/grpc-js';
import { type ErrorCode, errorCodes, HoldfastError, Unavailable } from '../../volume/errors.ts';

/** An error of a node, passed on unchanged. */
export class PassedOn extends HoldfastError {
  override readonly code: ErrorCode;

  constructor(code: number, message: string) {
    super(message);
    this.code = codeOf(code);
  }
}

/** Also of an error that was passed on. */
export function isNotFound(error: unknown): boolean {
  return error instanceof HoldfastError && error.code === 'NOT_FOUND';
}

/** The node is there, but the link of this call has ended: the caller may repeat it. */
export class LinkLost extends Unavailable {}

/** The caller's deadline has passed. The node continues (T02). */
export class TooLate extends HoldfastError {
  override readonly code = 'DEADLINE_EXCEEDED';
}

function codeOf(code: number): ErrorCode {
  const name = grpc.status[code];
  return errorCodes.find((each) => each === name) ?? 'INTERNAL';
}
