import type {
  BlockMetadata,
  GetMetadataAllocatedResponse,
  GetMetadataDeltaResponse,
  SnapshotMetadataHandlers,
} from '../csi/generated/types.ts';
import type { StreamContext } from '../csi/handler.ts';
import type { Found, Pools } from '../pool/pools.ts';
import { FailedPrecondition, InvalidArgument, NotFound, OutOfRange, Unavailable } from '../volume/errors.ts';
import type { ObjectQueue } from '../volume/flow/object-queue.ts';
import { parseSnapshotId } from '../volume/id.ts';
import type { SnapshotRecord } from '../volume/snapshot-record.ts';

export interface SnapshotMetadataOptions {
  readonly pools: Pools;
  /** Shared with the controller: shows snapshots that are being made. */
  readonly objects: ObjectQueue;
}

type Snapshot = Found<SnapshotRecord>;
type Message = GetMetadataAllocatedResponse & GetMetadataDeltaResponse;

/** The start and the number of ranges, the same in both requests. */
interface Page {
  readonly starting_offset: bigint;
  readonly max_results: number;
}

/**
 * At most about 50 KB, of the 4 MiB that a message may have (SM09); large enough to make the cost of its frame
 * negligible.
 */
const rangesPerMessage = 2048;

/**
 * The SnapshotMetadata service: the blocks that a snapshot holds, and those that changed between two, without reading
 * their data.
 */
export function snapshotMetadataService({ pools, objects }: SnapshotMetadataOptions): SnapshotMetadataHandlers {
  async function find(text: string): Promise<Snapshot> {
    const id = parseSnapshotId(text);
    const found = id === undefined ? undefined : await pools.findSnapshot(id);
    if (found !== undefined) return found;
    if (id !== undefined && objects.busy(id)) {
      throw new Unavailable(`Snapshot ${id} is still being made; try again.`); // SM15
    }
    throw new NotFound(`There is no snapshot ${JSON.stringify(text)} on this node.`); // SM02
  }

  /** A snapshot that has moved to another pool meanwhile is not gone. @throws Unavailable */
  async function* whileThere(snapshots: readonly Snapshot[], stream: AsyncGenerator<Message, void, void>) {
    try {
      yield* stream;
    } catch (error) {
      if (!(error instanceof NotFound)) throw error;
      for (const { pool, record } of snapshots) {
        const now = await pools.findSnapshot(record.id);
        if (now === undefined || now.pool.name === pool.name) continue;
        throw new Unavailable(
          `Snapshot ${record.id} has moved from pool ${pool.name} to pool ${now.pool.name} meanwhile: ask again, from the first offset that is missing.`,
        );
      }
      throw error;
    }
  }

  return {
    async *GetMetadataAllocated(request, context) {
      const target = await find(request.snapshot_id);
      requireBlock(target);
      yield* whileThere([target], messages(undefined, target, request, context));
    },

    async *GetMetadataDelta(request, context) {
      const base = await find(request.base_snapshot_id);
      const target = await find(request.target_snapshot_id);
      requireComparable(base, target);
      yield* whileThere([base, target], messages(base, target, request, context));
    },
  };
}

/** SM06-SM14: the ranges in the order of the pool, up to the limit in each message. No ranges, no message. */
async function* messages(
  base: Snapshot | undefined,
  { pool, record: target }: Snapshot,
  page: Page,
  { note, signal }: StreamContext,
): AsyncGenerator<Message, void, void> {
  note({ snapshot_id: target.id, pool: pool.name });
  const fromBytes = startIn(target, page);
  const limit = page.max_results === 0 ? rangesPerMessage : Math.min(page.max_results, rangesPerMessage);
  const message = (block_metadata: BlockMetadata[]): Message => ({
    block_metadata_type: 'VARIABLE_LENGTH',
    volume_capacity_bytes: target.sizeBytes,
    block_metadata,
  });
  let ranges: BlockMetadata[] = [];
  let total = 0;
  for await (const range of pool.changedRanges({ base: base?.record.id, target: target.id, fromBytes, signal })) {
    ranges.push({ byte_offset: range.offsetBytes, size_bytes: range.lengthBytes });
    if (ranges.length < limit) continue;
    total += ranges.length;
    yield message(ranges);
    ranges = [];
  }
  note({ ranges: total + ranges.length });
  if (ranges.length > 0) yield message(ranges);
}

/** SM05: offsets have a meaning only if the snapshot is read as a block device. */
function requireBlock({ record: { content, id, sourceId } }: Snapshot): void {
  if (content.type === 'block') return;
  throw new InvalidArgument(
    `Snapshot ${id} is of volume ${sourceId}, which has a filesystem: only raw block volumes have changed-block data.`,
  );
}

/** SM04, SM05. Snapshots of the same millisecond are accepted in either order: the difference is the same both ways. */
function requireComparable(base: Snapshot, target: Snapshot): void {
  for (const snapshot of [base, target]) requireBlock(snapshot);
  const [older, newer] = [base.record, target.record];
  if (older.sourceId !== newer.sourceId) {
    throw new InvalidArgument(
      `Snapshot ${older.id} is of volume ${older.sourceId} and ${newer.id} of ${newer.sourceId}: only snapshots of the same volume can be compared.`,
    );
  }
  if (older.id === newer.id || Date.parse(older.createdAt) > Date.parse(newer.createdAt)) {
    throw new InvalidArgument(
      `The base must be older than the target: ${older.id} is of ${older.createdAt}, ${newer.id} of ${newer.createdAt}.`,
    );
  }
  if (base.pool !== target.pool) {
    throw new FailedPrecondition(
      `Snapshot ${older.id} lies in pool ${base.pool.name}, and ${newer.id} in pool ${target.pool.name}: blocks of two pools cannot be compared. Make a full backup, with GetMetadataAllocated.`,
    );
  }
  if (target.pool.traits.changedBlocks === 'none') return;
  if (target.pool.traits.changedBlocks !== 'delta') {
    throw new FailedPrecondition(
      `Pool ${target.pool.name} cannot tell what changed between two snapshots, only what each holds: the places of their blocks mean nothing there (they do on XFS with reflink). Make a full backup, with GetMetadataAllocated.`,
    );
  }
}

/** @throws OutOfRange (SM03) */
function startIn({ id, sizeBytes }: SnapshotRecord, { starting_offset }: Page): bigint {
  if (starting_offset >= 0n && starting_offset <= sizeBytes) return starting_offset;
  throw new OutOfRange(`starting_offset is ${starting_offset}, and snapshot ${id} has bytes 0 to ${sizeBytes}.`);
}
