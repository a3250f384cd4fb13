import type { ErrorCode } from '../../volume/errors.ts';
import { TypedChannel } from '../../volume/typed-channel.ts';

/**
 * What became of a call for a node: its code, as the node answered it; or what happened on the way. REFUSED: it was never
 * sent, as the node has too many, or is stopping.
 */
export type Outcome = ErrorCode | 'OK' | 'CANCELLED' | 'LINK_LOST' | 'REFUSED' | 'TOO_LATE';

/** A call for a node has ended. */
export const forwarded = new TypedChannel<{ readonly node: string; readonly outcome: Outcome }>('holdfast:forwarded');

/** token: it is none that a node may come with. review: Kubernetes could not be asked. hello: the node says what it must not. */
export type Refusal = 'token' | 'review' | 'hello' | 'forgotten';

/** A volume that a first try left on the wrong node has been put into the trash. */
export const strayTrashed = new TypedChannel<{ readonly node: string }>('holdfast:stray-trashed');

/** A claim was told that its node is away, or back. */
export const claimTold = new TypedChannel<{ readonly kind: 'away' | 'back' | 'missing' }>('holdfast:claim-told');

/** Somebody wanted to link, and may not. */
export const linkRefused = new TypedChannel<{ readonly reason: Refusal }>('holdfast:link-refused');
