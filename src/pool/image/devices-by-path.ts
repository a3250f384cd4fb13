import type { Lane } from '../../kernel/lane.ts';
import { findLoops } from '../../kernel/loop-sight.ts';
import { type VolumeId, volumeIdInPath } from '../../volume/id.ts';
import type { AttachedDevice } from '../pool.ts';

/**
 * The devices of a volume by what the kernel alone knows of them, for a pool whose disk cannot be asked: enough to undo
 * what is mounted, not enough to attach anything.
 */
export function devicesByPath(lane: Lane, id: VolumeId): Promise<AttachedDevice[]> {
  return findLoops(lane, (backingPath) => volumeIdInPath(backingPath) === id);
}
