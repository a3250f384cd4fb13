import { FailedPrecondition } from '../../volume/errors.ts';
import type { VolumeId } from '../../volume/id.ts';
import { findUse } from './in-use.ts';
import type { CatalogParts } from './parts.ts';

export function noClones({ backend, name }: CatalogParts): string {
  return `pool ${name} (${backend.kind}) has no snapshots and no clones of volumes.`;
}

/** For clones that are copies. @throws FailedPrecondition with advice, if the volume is in use */
export async function refuseCopyInUse(parts: CatalogParts, id: VolumeId): Promise<void> {
  if ((await findUse(parts, id)) === undefined) return;
  const { backend, name } = parts;
  if (backend.space.sharesBlocks || backend.traits.copiesAlways === true) {
    throw new FailedPrecondition(
      `volume ${id} is in use, and pool ${name} (${backend.kind}) copies only volumes that are not in use: stop its pod for that time.`,
    );
  }
  throw new FailedPrecondition(
    `volume ${id} is in use, and pool ${name} cannot share blocks (reflink): it can be copied only when not in use. Stop its pod for that time, or put the pool on XFS or btrfs.`,
  );
}
