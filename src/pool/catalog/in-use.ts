import { findHolders } from '../../kernel/process/holders.ts';
import { FailedPrecondition } from '../../volume/errors.ts';
import { describeHolders } from '../../volume/holder.ts';
import type { VolumeId } from '../../volume/id.ts';
import type { AttachedDevice } from '../pool.ts';

/** What cannot be done to a volume that is attached on this node: who has it, and what to do. */
export async function attachedHere(id: VolumeId, device: AttachedDevice): Promise<FailedPrecondition> {
  // Where it is mounted is found quickly, and tells enough; the processes in it will come to an end with it.
  const mounts = await findHolders({ devices: [device] }, 'mounts');
  const found = mounts.holders.length > 0 ? mounts : await findHolders({ devices: [device] }, 'all');
  return new FailedPrecondition(
    `volume ${id} is in use through ${device.devicePath}, ${describeHolders(found)}; end that first (see holdfast who).`,
  );
}
