import type { ErrorCode } from '../volume/errors.ts';
import { TypedChannel } from '../volume/flow/typed-channel.ts';

/** An object that stands for one call from its beginning to its end. */
export interface CallEvent {
  readonly call: object;
  readonly rpc: string;
}

export interface CallEnd extends CallEvent {
  /** CANCELLED: the client ended the stream early. */
  readonly code: ErrorCode | 'OK' | 'CANCELLED';
  readonly ms: number;
}

export const callBegan = new TypedChannel<CallEvent>('holdfast:call-began');
/** The end of a call's work, even if the client did not wait for it (T02). */
export const callEnded = new TypedChannel<CallEnd>('holdfast:call-ended');
