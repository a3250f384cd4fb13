import { statfs } from 'node:fs/promises';
import { type Descriptor, openReadOnly } from '../../kernel/descriptor.ts';
import { sameDevice } from '../../kernel/device.ts';
import { isErrno } from '../../kernel/errno.ts';
import { type ExtentPage, readExtents } from '../../kernel/fiemap.ts';
import type { Lane } from '../../kernel/lane.ts';
import { type FileStatus, statusOf } from '../../kernel/path.ts';
import { type ByteRange, nextData } from '../../kernel/sparse.ts';
import { DataLoss, FailedPrecondition, NotFound } from '../../volume/errors.ts';
import type { SnapshotRecord } from '../../volume/snapshot-record.ts';
import type { PoolCapabilities } from '../pool.ts';
import { changedRanges, type ReadPage } from './changed-ranges.ts';
import type { Layout } from './layout.ts';

/** statfs(2). */
const XFS_SUPER_MAGIC = 0x58465342n;

/**
 * Whether the places of blocks on the disk tell what changed. They do where snapshots share blocks, and where a block
 * of a file that nobody writes to stays where it is as long as the file exists: then a place that two snapshots share
 * has had one content all the time. btrfs moves blocks by itself (balance), and a copy has places of its own.
 */
export async function changedBlocksIn(
  lane: Lane,
  layout: Layout,
  snapshots: PoolCapabilities['snapshots'],
): Promise<PoolCapabilities['changedBlocks']> {
  if (snapshots !== 'reflink') return 'allocated';
  const { type } = await lane.run(() => statfs(layout.snapshots, { bigint: true }));
  return type === XFS_SUPER_MAGIC ? 'delta' : 'allocated';
}

export interface ChangedBlocksRequest {
  readonly lane: Lane;
  readonly layout: Layout;
  readonly mode: PoolCapabilities['changedBlocks'];
  readonly base: SnapshotRecord | undefined;
  readonly target: SnapshotRecord;
  readonly fromBytes: bigint;
  readonly signal: AbortSignal;
}

/** The images are held open from the first range to the last, so that they live on if their snapshots are removed. */
export async function* changedBlocks(request: ChangedBlocksRequest): AsyncGenerator<ByteRange, void, void> {
  const { base, fromBytes, lane, mode, signal, target } = request;
  const readPage = mode === 'delta' ? readExtents : readStretch;
  const pagesOf =
    ({ file }: OpenImage): ReadPage =>
    (from, to) =>
      readPage(lane, file, from, to);
  await using targetImage = await openImage(request, target);
  const comparison = { readTarget: pagesOf(targetImage), fromBytes, toBytes: target.sizeBytes, signal };
  if (base === undefined) return yield* changedRanges({ ...comparison, base: undefined });
  await using baseImage = await openImage(request, base);
  // Places on two devices are not comparable; one pool has but one, unless somebody mounted something into it.
  if (!sameDevice(baseImage.status.device, targetImage.status.device)) {
    throw new FailedPrecondition(`snapshots ${base.id} and ${target.id} lie on different filesystems.`);
  }
  yield* changedRanges({ ...comparison, base: { readPage: pagesOf(baseImage), sizeBytes: base.sizeBytes } });
}

interface OpenImage extends AsyncDisposable {
  readonly file: Descriptor;
  readonly status: FileStatus;
}

async function openImage({ lane, layout }: ChangedBlocksRequest, snapshot: SnapshotRecord): Promise<OpenImage> {
  const file = await openReadOnly(lane, layout.snapshotData(snapshot.id)).catch((cause) => {
    if (!isErrno(cause, 'ENOENT')) throw cause;
    throw new NotFound(`There is no snapshot ${snapshot.id} any more.`, { cause });
  });
  const image = { file, status: await statusOf(lane, file), [Symbol.asyncDispose]: () => file[Symbol.asyncDispose]() };
  if (image.status.sizeBytes >= snapshot.sizeBytes) return image;
  await using _closed = image;
  throw new DataLoss(`the image of snapshot ${snapshot.id} is shorter than its volume was: data is missing.`);
}

/** A page of one stretch of data, wherever on the disk it is: for filesystems whose maps we do not rely on. */
async function readStretch(lane: Lane, image: Descriptor, fromBytes: bigint, toBytes: bigint): Promise<ExtentPage> {
  const data = await nextData(lane, image, fromBytes);
  if (data === undefined) return { extents: [], untilBytes: toBytes };
  const endBytes = data.offsetBytes + data.lengthBytes;
  return {
    extents: [{ ...data, isWritten: true, physicalBytes: undefined }],
    untilBytes: endBytes < toBytes ? endBytes : toBytes,
  };
}
