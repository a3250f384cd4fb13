import type { ErrorCode } from '../../volume/errors.ts';
import { TypedChannel } from '../../volume/flow/typed-channel.ts';

/**
 * The outcome of a call for a node: the code of the node's answer, or a failure on the way. REFUSED: it was never sent,
 * as the node has too many, or is stopping.
 */
export type Outcome = ErrorCode | 'OK' | 'CANCELLED' | 'LINK_LOST' | 'REFUSED' | 'TOO_LATE';

/** A call for a node has ended. */
export const forwarded = new TypedChannel<{ readonly node: string; readonly outcome: Outcome }>('holdfast:forwarded');

/**
 * token: not a token of a node. review: Kubernetes did not answer. hello: invalid hello message. forgotten: an operator
 * has forgotten the node.
 */
export type Refusal = 'token' | 'review' | 'hello' | 'forgotten';

/** A volume that an earlier try left on the wrong node was put into the trash. */
export const strayTrashed = new TypedChannel<{ readonly node: string }>('holdfast:stray-trashed');

/** An event was written on a claim. */
export const claimTold = new TypedChannel<{ readonly kind: 'away' | 'back' | 'missing' }>('holdfast:claim-told');

/** A link was refused. */
export const linkRefused = new TypedChannel<{ readonly reason: Refusal }>('holdfast:link-refused');
