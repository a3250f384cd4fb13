import { HoldfastError, Unavailable } from '../../volume/errors.ts';
import type { VolumeId } from '../../volume/id.ts';
import type { NodeContext } from '../context.ts';

/**
 * Removes the volume, as the end of its unpublish. In a pool that could not be opened it goes when that is opened, for
 * then nothing uses it. @throws Unavailable while a pool is being opened: it may have been seen in use a moment ago
 */
export async function removeEphemeral(context: NodeContext, id: VolumeId): Promise<void> {
  const found = await context.pools.findEphemeral(id).catch(undefinedIfDamaged);
  await found?.pool.remove(id);
  if (!context.pools.ready()) {
    throw new Unavailable(`volume ${id} is unmounted, but a pool that may have it is still being opened; try again.`);
  }
}

/** A record that cannot be read is for a person to look at; who unpublishes can do nothing about it (UP08). */
function undefinedIfDamaged(error: unknown): undefined {
  if (!(error instanceof HoldfastError)) throw error;
}
