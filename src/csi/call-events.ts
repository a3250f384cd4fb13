import type { ErrorCode } from '../volume/errors.ts';
import { TypedChannel } from '../volume/typed-channel.ts';

/** Stands for one call from its beginning to its end. */
export interface CallEvent {
  readonly call: object;
  readonly rpc: string;
}

export interface CallEnd extends CallEvent {
  /** CANCELLED: a stream that its client did not want to the end. */
  readonly code: ErrorCode | 'OK' | 'CANCELLED';
  readonly ms: number;
}

export const callBegan = new TypedChannel<CallEvent>('holdfast:call-began');
/** The work is done, whether or not the client still waited for it (T02). */
export const callEnded = new TypedChannel<CallEnd>('holdfast:call-ended');
