import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import type { FoundVolume } from '../../pool/pools.ts';
import { FailedPrecondition, HoldfastError, Unavailable } from '../../volume/errors.ts';
import type { VolumeId } from '../../volume/id.ts';
import type { InlineContext, NodeContext } from '../context.ts';
import { isSeenHere } from './seen-here.ts';

/**
 * Removes the volume, as the end of its unpublish. In a pool that could not be opened it goes when that is opened, for
 * then nothing uses it. @throws Unavailable while a pool is being opened: it may have been seen in use a moment ago
 */
export async function removeEphemeral({ queue }: NodeContext, inline: InlineContext, id: VolumeId): Promise<void> {
  const found = await inline.pools.findEphemeral(id).catch(undefinedIfDamaged);
  if (found !== undefined) await removeNowOrLater(queue, inline, found, id);
  if (!inline.pools.ready()) {
    throw new Unavailable(`volume ${id} is unmounted, but a pool that may have it is still being opened; try again.`);
  }
}

/**
 * A volume that is not mounted here any more is unpublished, even if it is in use elsewhere: a pod need not wait for
 * that to end.
 */
async function removeNowOrLater(
  queue: DiskQueue,
  { lateRemovals }: InlineContext,
  { pool }: FoundVolume,
  id: VolumeId,
): Promise<void> {
  try {
    await pool.remove(id);
  } catch (error) {
    if (!(error instanceof FailedPrecondition) || (await isSeenHere(queue, pool, id))) throw error;
    lateRemovals.add(id);
  }
}

/** A record that cannot be read is for a person to look at; the caller of an unpublish can do nothing about it (UP08). */
function undefinedIfDamaged(error: unknown): undefined {
  if (!(error instanceof HoldfastError)) throw error;
}
