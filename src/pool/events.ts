import { TypedChannel } from '../volume/flow/typed-channel.ts';

/** Objects that an opening pool finds half done, and finishes or removes. */
export const leftovers = [
  'device',
  'frozen_filesystem',
  'unfinished_expansion',
  'snapshot_of_unfinished_group',
  'unused_ephemeral_volume',
  'draft_or_removed',
] as const;

export type Leftover = (typeof leftovers)[number];

/** A pool, being opened, cleaned up after a driver that was killed. */
export const reconciled = new TypedChannel<{
  readonly pool: string;
  readonly what: Leftover;
  readonly count: number;
}>('holdfast:reconciled');

/** No pod of this node uses the volume any more. */
export const unstaged = new TypedChannel<{ readonly volumeId: string }>('holdfast:unstaged');

/** Writers were held up while volumes were cloned. */
export const frozen = new TypedChannel<{ readonly pool: string; readonly ms: number }>('holdfast:frozen');

/** The image of a volume became smaller by these bytes, because its filesystem reported its free blocks. */
export const trimmed = new TypedChannel<{ readonly pool: string; readonly bytes: bigint }>('holdfast:trimmed');

/** These bytes of deleted data have been made zeros. */
export const wiped = new TypedChannel<{ readonly pool: string; readonly bytes: bigint }>('holdfast:wiped');
