import { isErrno } from '../../kernel/call/errno.ts';
import type { Encryption } from '../../volume/encryption.ts';
import type { SnapshotId, VolumeId } from '../../volume/id.ts';
import type { TrashRef } from '../indexes/trash-entry.ts';
import type { CatalogParts } from './parts.ts';

/** A volume or snapshot. */
interface Recorded {
  readonly id: VolumeId | SnapshotId;
  readonly encryption?: Encryption | undefined;
}

/**
 * Destroys a removed object behind the answer; an encrypted one is unreadable before the answer.
 * @throws the error that keeps its keys from being overwritten: the caller asks again, and waits for that then
 */
export async function destroyUnreadable(
  { backend, log, name, trash }: Pick<CatalogParts, 'backend' | 'log' | 'name' | 'trash'>,
  ref: TrashRef,
  { encryption, id }: Recorded,
): Promise<void> {
  try {
    if (encryption !== undefined) await backend.provisioner.shred?.(ref);
  } catch (error) {
    log.warn({ pool: name, id, err: error }, 'the keys of a deleted volume or snapshot are not erased yet');
    if (!isForWantOfRoom(error)) throw error;
  } finally {
    trash.destroy(ref);
  }
}

/** Its blocks are shared with a living object, and there is no room to write new ones: it is deleted to free some. */
export function isForWantOfRoom(error: unknown): boolean {
  return isErrno(error, 'ENOSPC', 'EDQUOT');
}
