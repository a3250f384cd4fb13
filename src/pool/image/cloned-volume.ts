import { readMountTable } from '../../kernel/mount-table.ts';
import type { VolumeRecord } from '../../volume/record.ts';
import type { AttachedDevice } from '../pool.ts';
import { attachedHere } from './in-use.ts';
import { isMountOf } from './mounted.ts';
import type { ImageParts } from './parts.ts';

/**
 * The devices of a volume that is about to be cloned, to find what has to be frozen. A filesystem that is mounted nowhere
 * here but still has its device is either about to go, and is waited for: what its users wrote last may not be in the
 * image yet. Or it lives on in another mount namespace, where it cannot be frozen.
 * @throws FailedPrecondition then
 */
export async function devicesToFreeze(
  { devices, lane }: Pick<ImageParts, 'devices' | 'lane'>,
  { content, id }: Pick<VolumeRecord, 'content' | 'id'>,
): Promise<readonly AttachedDevice[]> {
  const attached = await devices.inUse(id);
  const writable = attached.find(({ readonly }) => !readonly);
  if (content.type === 'block' || writable === undefined) return attached;
  const table = await readMountTable(lane);
  if (!table.some((mount) => isMountOf(mount, writable))) throw await attachedHere(id, writable);
  return attached;
}
