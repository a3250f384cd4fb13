import { CommandError } from '../command/run.ts';
import { isErrno, KernelError } from '../kernel/errno.ts';
import { type ErrorCode, HoldfastError } from '../volume/errors.ts';

/** What a call ends with when it fails: a gRPC status, and what the log should know beside it. */
export interface FailureStatus {
  readonly code: ErrorCode;
  /** Never empty; nothing in it that a caller must not see (E01, X02, X03). */
  readonly message: string;
  /** Where the error came from, for the log: only of errors that nobody thought of. */
  readonly stack: string | undefined;
}

/** A status travels in the response's headers, percent-encoded, and some clients take no more than 8 KiB of them. */
const longestMessageBytes = 2048;

/** The one place where an error becomes a status. */
export function toStatus(error: unknown): FailureStatus {
  if (error instanceof HoldfastError) return failure(error.code, error.message);
  if (error instanceof KernelError) return failure(systemCode(error), kernelMessage(error));
  if (error instanceof CommandError) return failure('INTERNAL', error.message);
  // node:fs has the kernel's errors too, in an Error of its own.
  if (error instanceof Error && isNoSpace(error)) return failure('RESOURCE_EXHAUSTED', error.message);
  // A bug. Its message may hold anything, a secret too, so the caller gets none of it (X03).
  const stack = error instanceof Error ? (error.stack ?? `${error}`) : `thrown, and not an Error: ${typeof error}`;
  return { ...failure('INTERNAL', 'internal error; the log of the driver says more'), stack };
}

function failure(code: ErrorCode, message: string): FailureStatus {
  const sent = fitting(message);
  return { code, message: sent === '' ? `${code}, without a reason` : sent, stack: undefined };
}

/** Cut to size, and without lone surrogates, which have no UTF-8. */
function fitting(message: string): string {
  const bytes = Buffer.from(message);
  return bytes.length <= longestMessageBytes
    ? bytes.toString()
    : `${bytes.subarray(0, longestMessageBytes).toString()}…`;
}

function systemCode(error: KernelError): ErrorCode {
  return isNoSpace(error) ? 'RESOURCE_EXHAUSTED' : 'INTERNAL';
}

/** CV20: the caller may try elsewhere. */
function isNoSpace(error: unknown): boolean {
  return isErrno(error, 'ENOSPC', 'EDQUOT');
}

/** What a filesystem said about a mount can quote a mount flag, so it stays out (X02). */
function kernelMessage(error: KernelError): string {
  if (error.detail === undefined) return error.message;
  return `${error.syscall}${error.path === undefined ? '' : ` ${error.path}`}: refused (${error.code})`;
}
