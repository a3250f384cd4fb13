import type { ByteRange } from '../../kernel/file/sparse.ts';
import type { Pool } from '../../pool/pool.ts';
import { storedBytes } from '../../volume/encryption.ts';
import type { SnapshotId } from '../../volume/id.ts';
import { smaller } from '../../volume/size.ts';
import type { SnapshotRecord } from '../../volume/snapshot-record.ts';
import { dataRanges } from '../copy.ts';
import type { NotedShare } from '../job.ts';
import { movesOf } from '../source.ts';

/** A copy of a snapshot in a pool. */
export interface Held {
  readonly pool: Pool;
  readonly record: SnapshotRecord;
}

/** The space that a snapshot may take in another pool, at most. */
interface Share {
  /** The time of the snapshot. */
  readonly createdAt: string;
  readonly wholeBytes: bigint;
  /** The part that a later snapshot has not. */
  readonly ownBytes: bigint;
  /** The later snapshot, which has to be there; undefined: all of it is its own. */
  readonly beside: SnapshotId | undefined;
}

/** The space that snapshots of a volume need where they go, counted while all of them are where they were. */
export class SnapshotSpace {
  readonly #shares: ReadonlyMap<SnapshotId, Share>;

  private constructor(shares: ReadonlyMap<SnapshotId, Share>) {
    this.#shares = shares;
  }

  /**
   * @param held the newest first
   * @param unitBytes the other pool takes space in multiples of this
   * @param noted counted before: some of those have moved since
   */
  static async count(
    held: readonly Held[],
    unitBytes: bigint,
    noted: readonly NotedShare[] = [],
  ): Promise<SnapshotSpace> {
    const shares = new Map(noted.map((each) => [each.id, shareIn(each)]));
    let later: Held | undefined;
    for (const each of held) {
      const { createdAt, id } = each.record;
      if (shares.get(id)?.createdAt === createdAt) {
        later = each;
        continue;
      }
      // A thin pool clones none of another size: one from before a growth is written whole.
      const isLike = later?.pool === each.pool && later.record.sizeBytes === each.record.sizeBytes;
      const beside = isLike && movesOf(each.pool).hasChanges ? later?.record.id : undefined;
      // One that cannot be read does not keep the others.
      shares.set(id, await shareOf(each, beside, unitBytes).catch(() => unknownShare(each.record)));
      later = each;
    }
    return new SnapshotSpace(shares);
  }

  /** For the note of their move. */
  get shares(): NotedShare[] {
    return Array.from(this.#shares, ([id, { beside, createdAt, ownBytes, wholeBytes }]) => ({
      ...{ id, createdAt, whole: `${wholeBytes}`, own: `${ownBytes}` },
      ...(beside !== undefined && { beside }),
    }));
  }

  /** The space of all of them. */
  get totalBytes(): bigint {
    return [...this.#shares.values()].reduce((sum, { ownBytes }) => sum + ownBytes, 0n);
  }

  /**
   * The space that one needs now: a later one that was deleted, or has stayed behind, is not there to share blocks with.
   * @param isThere answers if a snapshot is in the other pool
   */
  neededBytes(record: SnapshotRecord, isThere: (id: SnapshotId) => boolean): bigint {
    const { ownBytes, wholeBytes, ...share } = this.#shares.get(record.id) ?? unknownShare(record);
    let neededBytes = ownBytes;
    for (let { beside } = share; beside !== undefined && !isThere(beside); ) {
      const later = this.#shares.get(beside);
      neededBytes += later?.ownBytes ?? wholeBytes;
      beside = later?.beside;
    }
    return smaller(neededBytes, wholeBytes);
  }
}

function shareIn({ beside, createdAt, own, whole }: NotedShare): Share {
  return { createdAt, wholeBytes: BigInt(whole), ownBytes: BigInt(own), beside };
}

function unknownShare(record: SnapshotRecord): Share {
  const { createdAt } = record;
  return { createdAt, wholeBytes: storedBytes(record), ownBytes: storedBytes(record), beside: undefined };
}

async function shareOf({ pool, record }: Held, beside: SnapshotId | undefined, unitBytes: bigint): Promise<Share> {
  const { createdAt } = record;
  const moves = movesOf(pool);
  if (!moves.hasChanges) {
    await using file = await moves.snapshots.read(record.id);
    const wholeBytes = await unitsIn(dataRanges(pool.queue, file, 0n, storedBytes(record)), unitBytes);
    return { createdAt, wholeBytes, ownBytes: wholeBytes, beside: undefined };
  }
  const { signal } = new AbortController();
  const rangesFrom = (base: SnapshotId | undefined) =>
    moves.changedRanges({ base, target: record.id, fromBytes: 0n, signal });
  const wholeBytes = await unitsIn(rangesFrom(undefined), unitBytes);
  // A later snapshot may have blocks that this one has not.
  const ownBytes =
    beside === undefined ? wholeBytes : smaller(wholeBytes, await unitsIn(rangesFrom(beside), unitBytes));
  return { createdAt, wholeBytes, ownBytes, beside };
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
