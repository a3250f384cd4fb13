import { CommandError } from '../command/run.ts';
import { diskFaultOf } from '../kernel/block/disk-fault.ts';
import { KernelError } from '../kernel/call/errno.ts';
import { type ErrorCode, HoldfastError } from '../volume/errors.ts';

/** The result of a failed call: a gRPC status, and details for the log. */
export interface FailureStatus {
  readonly code: ErrorCode;
  /** Never empty; contains nothing that a caller must not see (E01, X02, X03). */
  readonly message: string;
  /** The origin of the error, for the log; only for unexpected errors. */
  readonly stack: string | undefined;
}

/** A status travels in the response's headers, percent-encoded, and some clients take no more than 8 KiB of them. */
const longestMessageBytes = 2048;

/**
 * The one place where an error becomes a status.
 * @param subject the subject of the call, for errors that do not name it: `volume vol-…`
 */
export function toStatus(error: unknown, subject?: string): FailureStatus {
  if (error instanceof HoldfastError) return failure(error.code, error.message);
  const about = (message: string) =>
    subject === undefined || message.includes(subject) ? message : `${subject}: ${message}`;
  const refusal = error instanceof KernelError ? error : kernelErrorOf(error);
  if (refusal !== undefined) return failure(systemCode(refusal), about(kernelMessage(refusal)));
  if (error instanceof CommandError) return failure('INTERNAL', about(error.message));
  // A bug. The message may hold anything, even a secret, so the caller gets none of it (X03).
  const stack = error instanceof Error ? (error.stack ?? `${error}`) : `thrown, and not an Error: ${typeof error}`;
  return { ...failure('INTERNAL', 'internal error; the log of the driver says more'), stack };
}

function failure(code: ErrorCode, message: string): FailureStatus {
  const sent = fitting(message);
  return { code, message: sent === '' ? `${code}, without a reason` : sent, stack: undefined };
}

/** Cuts a message to size, and removes lone surrogates, which have no UTF-8. */
function fitting(message: string): string {
  const bytes = Buffer.from(message);
  return bytes.length <= longestMessageBytes
    ? bytes.toString()
    : `${bytes.subarray(0, longestMessageBytes).toString()}…`;
}

/**
 * CV20: no space, so the caller may try elsewhere. After a failure of the disk the result is unknown, so the caller
 * must not (T03).
 */
function systemCode(error: KernelError): ErrorCode {
  if (remedies.get(error.code) === fullDisk) return 'RESOURCE_EXHAUSTED';
  return diskFaultOf(error) === undefined ? 'INTERNAL' : 'UNAVAILABLE';
}

/** node:fs reports the kernel's errors too, in its own Error, with a negative number. */
function kernelErrorOf(error: unknown): KernelError | undefined {
  if (!(error instanceof Error && 'errno' in error && 'syscall' in error)) return undefined;
  const { errno, syscall } = error;
  if (typeof errno !== 'number' || typeof syscall !== 'string') return undefined;
  const path = 'path' in error && typeof error.path === 'string' ? error.path : undefined;
  return new KernelError({ syscall, errno: Math.abs(errno), path });
}

/** The text of a filesystem about a mount can quote a mount flag, so it stays out (X02). */
function kernelMessage(error: KernelError): string {
  const usual = diskFaultOf(error) === undefined ? 'see the log of the driver on the node.' : sickDisk;
  const remedy = remedies.get(error.code) ?? usual;
  if (error.detail === undefined) return `${error.message}: ${remedy}`;
  return `${error.syscall}${error.path === undefined ? '' : ` ${error.path}`}: refused (${error.code}): ${remedy}`;
}

const sickDisk = "the disk or its filesystem has failed; see the node's kernel log.";
const missingRight = 'the driver lacks a right; run holdfast doctor on the node.';
const fullDisk = 'delete volumes or give the pool more space.';

const remedies: ReadonlyMap<string, string> = new Map([
  ['EPERM', missingRight],
  ['EACCES', missingRight],
  ['ENOSPC', fullDisk],
  ['EDQUOT', fullDisk],
]);
