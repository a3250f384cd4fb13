import { Unavailable } from '../volume/errors.ts';
import type { VolumeId } from '../volume/id.ts';

/**
 * Refuses an order that its caller waits for no more. By then the controller may have let another node take the volume back.
 * @throws Unavailable
 */
export function requireInTime(id: VolumeId, deadline: Date | undefined): void {
  if (deadline === undefined || Date.now() < deadline.getTime()) return;
  throw new Unavailable(`volume ${id} was not taken back in time, and is as it was: try again.`);
}
