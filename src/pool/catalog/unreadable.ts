import { isErrno } from '../../kernel/call/errno.ts';
import type { Encryption } from '../../volume/encryption.ts';
import type { SnapshotId, VolumeId } from '../../volume/id.ts';
import type { CatalogParts } from './parts.ts';
import type { TrashRef } from './trash-entry.ts';

/** Of a volume or snapshot. */
interface Recorded {
  readonly id: VolumeId | SnapshotId;
  readonly encryption?: Encryption | undefined;
}

/**
 * Destroys what was removed behind the answer; what is encrypted, nobody can read any more before the answer.
 * @throws what keeps its keys from being written over: who is told so asks again, and waits for that then
 */
export async function destroyUnreadable(
  { backend, log, name, trash }: Pick<CatalogParts, 'backend' | 'log' | 'name' | 'trash'>,
  ref: TrashRef,
  { encryption, id }: Recorded,
): Promise<void> {
  try {
    if (encryption !== undefined) await backend.provisioner.shred?.(ref);
  } catch (error) {
    log.warn({ pool: name, id, err: error }, 'the keys of what was deleted are not erased yet');
    if (!isForWantOfRoom(error)) throw error;
  } finally {
    trash.destroy(ref);
  }
}

/** Its blocks are shared with what goes on living, and there is no room to write anew: to free some is what it is deleted for. */
export function isForWantOfRoom(error: unknown): boolean {
  return isErrno(error, 'ENOSPC', 'EDQUOT');
}
