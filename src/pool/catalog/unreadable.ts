import type { Encryption } from '../../volume/encryption.ts';
import type { SnapshotId, VolumeId } from '../../volume/id.ts';
import type { CatalogParts } from './parts.ts';
import type { TrashRef } from './trash-entry.ts';

/** Of a volume or snapshot. */
interface Recorded {
  readonly id: VolumeId | SnapshotId;
  readonly encryption?: Encryption | undefined;
}

/** Destroys what was removed behind the answer; what is encrypted, nobody can read any more before the answer. */
export async function destroyUnreadable(
  { backend, log, name, trash }: CatalogParts,
  ref: TrashRef,
  { encryption, id }: Recorded,
): Promise<void> {
  try {
    if (encryption !== undefined) await backend.provisioner.shred?.(ref);
  } catch (error) {
    log.warn({ pool: name, id, err: error }, 'the keys of what was deleted are not erased yet');
  } finally {
    trash.destroy(ref);
  }
}
