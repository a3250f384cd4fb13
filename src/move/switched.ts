import { TypedChannel } from '../volume/flow/typed-channel.ts';

export interface Switched {
  readonly volumeId: string;
}

/** A copy of a volume has become the valid one of this node, or has stopped being it. */
export const switched = new TypedChannel<Switched>('holdfast:move-switched');
