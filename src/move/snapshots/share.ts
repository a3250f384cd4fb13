import type { ByteRange } from '../../kernel/file/sparse.ts';
import type { Pool } from '../../pool/pool.ts';
import { storedBytes } from '../../volume/encryption.ts';
import type { SnapshotId } from '../../volume/id.ts';
import { smaller } from '../../volume/size.ts';
import type { SnapshotRecord } from '../../volume/snapshot-record.ts';
import { dataRanges } from '../copy.ts';
import { movesOf } from '../source.ts';

/** The space that a snapshot may take in another pool. */
export interface ShareBytes {
  readonly wholeBytes: bigint;
  /** The part that a later snapshot has not. */
  readonly ownBytes: bigint;
}

export interface ShareAsked {
  readonly record: SnapshotRecord;
  /** The later snapshot; undefined: all of it is its own. */
  readonly beside: SnapshotId | undefined;
  /** The other pool takes space in multiples of this. */
  readonly unitBytes: bigint;
}

/** Counts the blocks of a snapshot in a pool of this node. */
export async function shareIn(pool: Pool, { beside, record, unitBytes }: ShareAsked): Promise<ShareBytes> {
  const moves = movesOf(pool);
  if (!moves.hasChanges) {
    await using file = await moves.snapshots.read(record.id);
    const wholeBytes = await unitsIn(dataRanges(pool.queue, file, 0n, storedBytes(record)), unitBytes);
    return { wholeBytes, ownBytes: wholeBytes };
  }
  const { signal } = new AbortController();
  const rangesFrom = (base: SnapshotId | undefined) =>
    moves.changedRanges({ base, target: record.id, fromBytes: 0n, signal });
  const wholeBytes = await unitsIn(rangesFrom(undefined), unitBytes);
  // A later snapshot may have blocks that this one has not.
  const ownBytes =
    beside === undefined ? wholeBytes : smaller(wholeBytes, await unitsIn(rangesFrom(beside), unitBytes));
  return { wholeBytes, ownBytes };
}

/** The bytes of all units that the ranges touch. They are in order. */
async function unitsIn(ranges: AsyncIterable<ByteRange>, unitBytes: bigint): Promise<bigint> {
  let units = 0n;
  let nextUnit = 0n;
  for await (const { lengthBytes, offsetBytes } of ranges) {
    const first = offsetBytes / unitBytes;
    const end = (offsetBytes + lengthBytes + unitBytes - 1n) / unitBytes;
    const from = first > nextUnit ? first : nextUnit;
    if (end <= from) continue;
    units += end - from;
    nextUnit = end;
  }
  return units * unitBytes;
}
