/**
 * The types of all errors that Holdfast answers with. An error is thrown where the fact is known and becomes a gRPC
 * status in one place, `csi/status.ts`. A message is one sentence (or two) for the person on call: what happened, to
 * what, and what to do. It never carries secrets, mount flags or stack traces (E01, X02, X03).
 */

/** The canonical gRPC codes that Holdfast answers with. */
export const errorCodes = [
  'INVALID_ARGUMENT',
  'DEADLINE_EXCEEDED',
  'NOT_FOUND',
  'ALREADY_EXISTS',
  'RESOURCE_EXHAUSTED',
  'FAILED_PRECONDITION',
  'ABORTED',
  'OUT_OF_RANGE',
  'UNIMPLEMENTED',
  'INTERNAL',
  'UNAVAILABLE',
  'DATA_LOSS',
] as const;
export type ErrorCode = (typeof errorCodes)[number];

/** The base of all errors that a caller may see. */
export abstract class HoldfastError extends Error {
  abstract readonly code: ErrorCode;
  override get name(): string {
    return this.constructor.name;
  }
}

/** The request is wrong in itself: change it before trying again (E02). */
export class InvalidArgument extends HoldfastError {
  override readonly code = 'INVALID_ARGUMENT';
}

/** No such volume, snapshot or mount. */
export class NotFound extends HoldfastError {
  override readonly code = 'NOT_FOUND';
}

/** The name, or the path, belongs to something that does not fit the request. */
export class AlreadyExists extends HoldfastError {
  override readonly code = 'ALREADY_EXISTS';
}

/** The request is right, but the state of the volume or the node forbids it. */
export class FailedPrecondition extends HoldfastError {
  override readonly code = 'FAILED_PRECONDITION';
}

/** No room, or no place that fits. Kubernetes schedules the pod elsewhere on this code (Y05). */
export class ResourceExhausted extends HoldfastError {
  override readonly code = 'RESOURCE_EXHAUSTED';
}

/** A size that no pool of this kind can have. */
export class OutOfRange extends HoldfastError {
  override readonly code = 'OUT_OF_RANGE';
}

/** Another call for the same object is in progress; try again (K01). */
export class Aborted extends HoldfastError {
  override readonly code = 'ABORTED';
}

/** Temporary: the pool is still opening, or the driver is stopping. */
export class Unavailable extends HoldfastError {
  override readonly code = 'UNAVAILABLE';
}

/** The data on the disk does not match the record. Never repaired by formatting. */
export class DataLoss extends HoldfastError {
  override readonly code = 'DATA_LOSS';
}

/** Something that should not be possible, or a refusal of the kernel that has no better code. */
export class InternalError extends HoldfastError {
  override readonly code = 'INTERNAL';
}

const byCode: { readonly [code in ErrorCode]?: new (message: string) => HoldfastError } = {
  INVALID_ARGUMENT: InvalidArgument,
  NOT_FOUND: NotFound,
  ALREADY_EXISTS: AlreadyExists,
  FAILED_PRECONDITION: FailedPrecondition,
  RESOURCE_EXHAUSTED: ResourceExhausted,
  OUT_OF_RANGE: OutOfRange,
  ABORTED: Aborted,
  UNAVAILABLE: Unavailable,
  DATA_LOSS: DataLoss,
};

/** An error that has come from another node, or another thread. */
export function errorOfCode(code: ErrorCode, message: string): HoldfastError {
  return new (byCode[code] ?? InternalError)(message);
}
