import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { withTimeout } from '../../volume/flow/with-timeout.ts';
import type { SnapshotId, VolumeId } from '../../volume/id.ts';
import { targetOf, whyUnusable } from '../../volume/move/rule.ts';
import type { VolumeRecord } from '../../volume/record.ts';
import type { SnapshotRecord } from '../../volume/snapshot-record.ts';
import type { RecordReader, SpaceSource, Transfer } from '../backend.ts';
import { RecordIndex } from '../indexes/record-index.ts';
import { SnapshotIndex } from '../indexes/snapshot-index.ts';
import type { PoolSettings } from '../settings.ts';
import { type PoolContents, type SeenSnapshot, type Wanted, wantsAttachments, wantsCapacity } from '../sight.ts';
import { SpaceLedger } from '../space/space-ledger.ts';
import { Generations } from './generations.ts';
import { expendableOf, type LeftInTrash, leftInTrash } from './left-in-trash.ts';
import { markIn } from './move-mark.ts';

export interface RecordsLook {
  readonly reader: RecordReader;
  readonly source: SpaceSource;
  readonly wanted: Wanted;
  /** undefined: nothing of it ever moves. */
  readonly marks?: Marks | undefined;
}

/** The copies that are a volume or snapshot no more are known by these. */
interface Marks extends Pick<Transfer, 'markInTrash'> {
  /** undefined: its snapshots never move. */
  readonly readMark?: ((id: SnapshotId) => Promise<string | undefined>) | undefined;
  readonly queue: DiskQueue;
  /** The directory of the node's driver, HOLDFAST_DATA. */
  readonly dataDirectory: string;
}

/** Reads a pool's records, of any kind. Changes nothing, so no driver needs to run. */
export async function lookAtRecords(
  pool: PoolSettings,
  { marks, reader, source, wanted }: RecordsLook,
): Promise<Pick<PoolContents, 'records' | 'snapshots' | 'damaged' | 'capacity' | 'disk' | 'usedBytes'>> {
  const { groups, snapshots, volumes } = await reader.read();
  const snapshotIndex = new SnapshotIndex(snapshots, groups);
  const trash = await reader.readTrash();
  const space = new SpaceLedger({
    ...pool,
    poolName: pool.name,
    source,
    index: new RecordIndex('volume', volumes),
    snapshotIndex,
    trash: {
      entries: () => trash.kept,
      of: (id) => trash.kept.filter(({ record }) => record.id === id),
      expendable: async () => expendableOf(trash.kept, await hasLeftBy(trash.kept.length === 0 ? undefined : marks)),
      purgeEarly: async () => undefined,
      drained: async () => undefined,
      going: [],
      oneGone: async () => undefined,
    },
    counts: async () => new Map(),
  });
  const survey = wantsCapacity(wanted) ? await space.survey() : undefined;
  return {
    records: volumes.records.toSorted(byAge),
    // A snapshot without the group that it names was never taken.
    snapshots: await withMoves(
      snapshots.records.filter((record) => snapshotIndex.hasItsGroup(record)).toSorted(byAge),
      marks,
    ),
    damaged: [...volumes.damaged, ...snapshots.damaged, ...groups.damaged],
    capacity: survey?.capacity,
    disk: survey?.disk,
    usedBytes: wantsAttachments(wanted) ? await usedBytesOf(source, volumes.records) : new Map(),
  };
}

async function hasLeftBy(marks: Marks | undefined): Promise<LeftInTrash | undefined> {
  return marks && leftInTrash(marks, await Generations.open(marks.dataDirectory, '', marks.queue));
}

async function withMoves(records: readonly SnapshotRecord[], marks: Marks | undefined): Promise<SeenSnapshot[]> {
  const { dataDirectory, queue, readMark } = marks ?? {};
  if (dataDirectory === undefined || queue === undefined || readMark === undefined || records.length === 0)
    return [...records];
  const generations = await Generations.open(dataDirectory, '', queue);
  return Promise.all(
    records.map(async (record) => {
      const left = await leftIn(record.id, readMark, generations).catch(() => ({}));
      return left === undefined ? record : { ...record, left };
    }),
  );
}

async function leftIn(
  id: SnapshotId,
  readMark: NonNullable<Marks['readMark']>,
  generations: Generations,
): Promise<SeenSnapshot['left']> {
  const mark = markIn(await readMark(id), id);
  const why = whyUnusable(mark, await generations.read(id));
  if (why === undefined || why === 'closed') return undefined;
  const { fence } = mark;
  return { pool: fence && targetOf(fence.moveId), node: fence?.to };
}

/** A directory without quota is counted file by file, which a list of volumes does not wait for. */
const countingTimeoutMs = 2_000;

async function usedBytesOf(
  source: SpaceSource,
  records: readonly VolumeRecord[],
): Promise<ReadonlyMap<VolumeId, bigint>> {
  const used = new Map<VolumeId, bigint>();
  const giveUpAtMs = performance.now() + countingTimeoutMs;
  for (const { id } of records) {
    const leftMs = giveUpAtMs - performance.now();
    if (leftMs <= 0) break;
    // A volume that cannot be measured is in the list anyway.
    const measured = source.allocatedBytes(id).catch(() => undefined);
    const bytes = await withTimeout(leftMs, measured);
    if (typeof bytes === 'bigint') used.set(id, bytes);
  }
  return used;
}

/** Oldest first, as a list grows at its end. */
function byAge(a: VolumeRecord | SnapshotRecord, b: VolumeRecord | SnapshotRecord): number {
  return a.createdAt.localeCompare(b.createdAt) || a.id.localeCompare(b.id);
}
