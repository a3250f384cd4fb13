import { storedBytes } from '../../volume/encryption.ts';
import type { SnapshotId } from '../../volume/id.ts';
import { smaller } from '../../volume/size.ts';
import type { SnapshotRecord } from '../../volume/snapshot-record.ts';
import type { NotedShare } from '../job.ts';
import { NotConnected } from '../source.ts';
import type { Held } from './held.ts';
import type { ShareBytes } from './share.ts';

/** The space that a snapshot may take in another pool, at most. */
interface Share extends ShareBytes {
  /** The time of the snapshot. */
  readonly createdAt: string;
  /** The later snapshot, which has to be there; undefined: all of it is its own. */
  readonly beside: SnapshotId | undefined;
}

type HeldShare = Pick<Held, 'hasChanges' | 'pool' | 'record' | 'share'>;

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
    held: readonly HeldShare[],
    unitBytes: bigint,
    noted: readonly NotedShare[] = [],
  ): Promise<SnapshotSpace> {
    const shares = new Map(noted.map((each) => [each.id, shareOf(each)]));
    let later: HeldShare | undefined;
    for (const each of held) {
      const { createdAt, id } = each.record;
      if (shares.get(id)?.createdAt === createdAt) {
        later = each;
        continue;
      }
      // A thin pool clones none of another size: one from before a growth is written whole.
      const isLike = later?.pool === each.pool && later.record.sizeBytes === each.record.sizeBytes;
      const beside = isLike && each.hasChanges ? later?.record.id : undefined;
      // One that cannot be read does not keep the others.
      const share = each.share(beside, unitBytes).then((bytes) => ({ createdAt, beside, ...bytes }));
      shares.set(id, await share.catch((error) => passOver(error, each.record)));
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

function shareOf({ beside, createdAt, own, whole }: NotedShare): Share {
  return { createdAt, wholeBytes: BigInt(whole), ownBytes: BigInt(own), beside };
}

function unknownShare(record: SnapshotRecord): Share {
  const { createdAt } = record;
  return { createdAt, wholeBytes: storedBytes(record), ownBytes: storedBytes(record), beside: undefined };
}

/** @throws NotConnected: another node that is away says it later */
function passOver(error: unknown, record: SnapshotRecord): Share {
  if (error instanceof NotConnected) throw error;
  return unknownShare(record);
}
