import type { Pool } from '../../pool/pool.ts';
import { DataLoss } from '../../volume/errors.ts';
import type { SnapshotId } from '../../volume/id.ts';
import { mayBeWhole } from './snapshot-move.ts';

/** The copy that is a volume or snapshot, or becomes it, while another copy of it goes for that. */
export interface Survivor {
  /** @throws DataLoss if not all of its data is there, as on a damaged disk */
  verified(): Promise<unknown>;
}

/** True if the other copy may go: the one that stays has all of its data, as far as its pool can tell. */
export async function hasAllData(survivor: Survivor): Promise<boolean> {
  try {
    await survivor.verified();
    return true;
  } catch (error) {
    if (error instanceof DataLoss) return false;
    throw error;
  }
}

/** Before a copy becomes the snapshot again, for which those go that have come to these pools. @throws DataLoss if all of one may have come */
export async function requireAllData(pools: readonly Pool[], id: SnapshotId, survivor: Survivor): Promise<void> {
  for (const pool of pools) if (await mayHaveCome(pool, id)) await survivor.verified();
}

/** Gives up the copies of a snapshot that are on their way to these pools. One of which all may have come stays beside a copy that has lost data. */
export async function discardBeside(pools: readonly Pool[], id: SnapshotId, survivor: Survivor): Promise<void> {
  for (const pool of pools) {
    const isNeeded = (await mayHaveCome(pool, id)) && !(await hasAllData(survivor));
    if (!isNeeded) await pool.moves?.snapshots.discard(id);
  }
}

/** True if all bytes of the snapshot may have come to that pool, which has no copy that is the snapshot. */
async function mayHaveCome({ moves }: Pool, id: SnapshotId): Promise<boolean> {
  if (moves === undefined || !(await moves.snapshots.arriving()).includes(id)) return false;
  try {
    return mayBeWhole(await moves.snapshots.notedOf(id));
  } catch (error) {
    // Its note cannot be read.
    if (error instanceof DataLoss) return true;
    throw error;
  }
}
