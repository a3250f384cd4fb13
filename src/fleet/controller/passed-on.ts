import * as grpc from '@grpc/grpc-js';
import { type ErrorCode, errorCodes, HoldfastError, Unavailable } from '../../volume/errors.ts';

/** What a node answered, as it answered it. */
export class PassedOn extends HoldfastError {
  override readonly code: ErrorCode;

  constructor(code: number, message: string) {
    super(message);
    this.code = codeOf(code);
  }
}

/** The node answers, but not for this call: it may be asked again. */
export class LinkLost extends Unavailable {}

/** The caller waits no longer. The node goes on (T02). */
export class TooLate extends HoldfastError {
  override readonly code = 'DEADLINE_EXCEEDED';
}

function codeOf(code: number): ErrorCode {
  const name = grpc.status[code];
  return errorCodes.find((each) => each === name) ?? 'INTERNAL';
}
