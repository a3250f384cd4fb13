import type { ByteRange } from '../../../../../kernel/file/sparse.ts';
import { DataLoss, NotFound } from '../../../../../volume/errors.ts';
import type { SnapshotId } from '../../../../../volume/id.ts';
import type { SnapshotRecord } from '../../../../../volume/snapshot-record.ts';
import { changedRanges, type ReadPage } from '../../../../changed-ranges.ts';
import type { ChangedRangesRequest } from '../../../../pool.ts';
import type { OwnLv } from '../../group/group-state.ts';
import type { VolumeGroup } from '../../group/volume-group.ts';
import type { MappingTrees } from './mapping-trees.ts';
import type { MetadataSnapshots } from './metadata-snapshots.ts';

/** A snapshot, and by what the thin pool knows it. */
interface Located {
  readonly record: SnapshotRecord;
  readonly lvName: string;
  readonly thinId: bigint;
}

/** The part of a volume group that is used here. */
export type GroupOfSnapshots = Pick<VolumeGroup, 'find' | 'name' | 'poolName' | 'refresh'>;

export interface ThinChangesParts {
  readonly group: GroupOfSnapshots;
  readonly snapshots: Pick<MetadataSnapshots, 'lastNumber' | 'read'>;
}

/** Reads a page of metadata at a time. */
type Read = <R>(work: (trees: MappingTrees) => Promise<R>) => Promise<R>;

/**
 * Compares the places of blocks: a chunk that two snapshots have at the same place of the pool has had one content since the
 * older one was made, as a write to a shared chunk goes to another one. Nothing is held between two ranges.
 */
export async function* thinChangedBlocks(
  { group, snapshots }: ThinChangesParts,
  request: ChangedRangesRequest,
  find: (id: SnapshotId) => SnapshotRecord,
): AsyncGenerator<ByteRange, void, void> {
  // Before they are looked up: a metadata snapshot that is older may have something else under their numbers.
  const after = snapshots.lastNumber;
  const target = await locate(group, find(request.target));
  const base = request.base === undefined ? undefined : await locate(group, find(request.base));
  let checked: number | undefined;
  const read: Read = (work) =>
    snapshots.read(after, async (trees, number) => {
      // Volumes that are there after it was made were there when it was made.
      if (number !== checked) for (const each of base === undefined ? [target] : [base, target]) requireIn(group, each);
      checked = number;
      return work(trees);
    });
  const { fromBytes, signal } = request;
  yield* changedRanges({
    ...{ fromBytes, signal, toBytes: target.record.sizeBytes },
    readTarget: targetPages(read, target, base),
    base: base && { readPage: basePages(read, target, base), sizeBytes: base.record.sizeBytes },
  });
}

function targetPages(read: Read, target: Located, base: Located | undefined): ReadPage {
  return (fromBytes, toBytes) =>
    read(async (trees) => {
      const root = await rootOf(trees, target);
      const isCompared = base !== undefined && fromBytes < base.record.sizeBytes;
      const sharedUntil = isCompared
        ? await trees.sharedUntil([root, await rootOf(trees, base)], fromBytes, toBytes)
        : undefined;
      return sharedUntil === undefined
        ? trees.page(root, fromBytes, toBytes)
        : { extents: [], untilBytes: sharedUntil };
    });
}

/** A part of the map that both share is passed over in both: nothing of it is read. */
function basePages(read: Read, target: Located, base: Located): ReadPage {
  return (fromBytes, toBytes) =>
    read(async (trees) => {
      const roots = [await rootOf(trees, target), await rootOf(trees, base)] as const;
      const sharedUntil = await trees.sharedUntil(roots, fromBytes, toBytes);
      return sharedUntil === undefined
        ? trees.page(roots[1], fromBytes, toBytes)
        : { extents: [], untilBytes: sharedUntil };
    });
}

async function rootOf(trees: MappingTrees, { record, thinId }: Located): Promise<bigint> {
  const root = await trees.rootOf(thinId);
  if (root !== undefined) return root;
  throw new DataLoss(`snapshot ${record.id}: its thin pool has no device ${thinId}: see lvs -a -o +thin_id.`);
}

/** @throws NotFound, DataLoss */
async function locate(group: GroupOfSnapshots, record: SnapshotRecord): Promise<Located> {
  if (group.find(record.id)?.thinId === undefined) await group.refresh();
  const lv = group.find(record.id);
  if (lv === undefined) throw gone(record, group);
  if (lv.thinId === undefined) {
    throw new DataLoss(`snapshot ${record.id}: LVM names no thin device for ${group.name}/${lv.name}.`);
  }
  return { record, lvName: lv.name, thinId: lv.thinId };
}

/** @throws NotFound if it has been removed */
function requireIn(group: GroupOfSnapshots, { lvName, record, thinId }: Located): void {
  const lv: OwnLv | undefined = group.find(record.id);
  if (lv?.name !== lvName || lv.thinId !== thinId) throw gone(record, group);
}

function gone({ id }: SnapshotRecord, { poolName }: GroupOfSnapshots): NotFound {
  return new NotFound(`There is no snapshot ${id} in pool ${poolName}.`);
}
