import type { FoundVolume } from '../pool/pools.ts';
import { HoldfastError } from '../volume/errors.ts';
import type { VolumeId } from '../volume/id.ts';
import type { NodeContext } from './context.ts';

/** For what must also work while the volume's pool, or its record, cannot be read (UP08). */
export async function findIfPossible({ pools }: NodeContext, id: VolumeId): Promise<FoundVolume | undefined> {
  try {
    return await pools.find(id);
  } catch (error) {
    if (error instanceof HoldfastError) return undefined;
    throw error;
  }
}
