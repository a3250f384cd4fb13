import { statfs } from 'node:fs/promises';
import type { Descriptor } from '../../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { type DeviceNumber, sameDevice } from '../../../kernel/device.ts';
import { type ExtentPage, readExtents } from '../../../kernel/file/fiemap.ts';
import { filesystemType } from '../../../kernel/file/filesystem-type.ts';
import { statusOf } from '../../../kernel/file/path.ts';
import { type ByteRange, nextData } from '../../../kernel/file/sparse.ts';
import { FailedPrecondition, NotFound } from '../../../volume/errors.ts';
import type { SnapshotId } from '../../../volume/id.ts';
import { smaller } from '../../../volume/size.ts';
import type { SnapshotRecord } from '../../../volume/snapshot-record.ts';
import { changedRanges, type ReadPage } from '../../changed-ranges.ts';
import type { ChangedRangesRequest, Traits } from '../../pool.ts';
import { isThere } from '../../records/gone.ts';
import type { Layout } from '../../records/layout.ts';
import type { ImageParts } from './image-backend.ts';
import { imageOf, openImage } from './image-file.ts';

/**
 * The trait for changed blocks. The places of blocks on the disk show changes where snapshots share blocks, and where a
 * block of a file without a writer stays in its place as long as the file exists: then a place that two snapshots share
 * has had one content all the time. btrfs moves blocks automatically (balance), and a copy has other places.
 */
export async function changedBlocksIn(
  queue: DiskQueue,
  layout: Layout,
  snapshots: Traits['snapshots'],
): Promise<Traits['changedBlocks']> {
  if (snapshots !== 'reflink') return 'allocated';
  const { type } = await queue.run(() => statfs(layout.snapshots, { bigint: true }));
  return type === filesystemType.xfs ? 'delta' : 'allocated';
}

/** @throws NotFound */
type Find = (id: SnapshotId) => SnapshotRecord;

/** The images are held open from the first range to the last, so that they live on if their snapshots are removed. */
export async function* changedBlocks(
  parts: ImageParts,
  request: ChangedRangesRequest,
  find: Find,
): AsyncGenerator<ByteRange, void, void> {
  const { fromBytes, signal } = request;
  const readPage = parts.changedBlocks === 'delta' ? readExtents : readStretch;
  const pagesOf =
    ({ file }: SnapshotImage): ReadPage =>
    (from, to) =>
      readPage(parts.queue, file, from, to);
  await using target = await openSnapshot(parts, find(request.target));
  const comparison = { readTarget: pagesOf(target), fromBytes, toBytes: target.sizeBytes, signal };
  if (request.base === undefined) return yield* changedRanges({ ...comparison, base: undefined });
  await using base = await openSnapshot(parts, find(request.base));
  // Places on two devices are not comparable; a pool has one device, unless something was mounted into it.
  if (!sameDevice(base.device, target.device)) {
    throw new FailedPrecondition(`snapshots ${request.base} and ${request.target} lie on different filesystems.`);
  }
  yield* changedRanges({ ...comparison, base: { readPage: pagesOf(base), sizeBytes: base.sizeBytes } });
}

interface SnapshotImage extends AsyncDisposable {
  readonly file: Descriptor;
  /** The size of the volume at the cut; the file can be larger. */
  readonly sizeBytes: bigint;
  /** The device of its filesystem. */
  readonly device: DeviceNumber;
}

async function openSnapshot({ queue, layout, name }: ImageParts, record: SnapshotRecord): Promise<SnapshotImage> {
  const { id, sizeBytes } = record;
  const image = imageOf(layout, { kind: 'snapshot', record });
  const file = await openImage(queue, image, 'read').catch(async (error) => {
    // Not damaged, but just being removed.
    if (await isThere(queue, layout.snapshot(id))) throw error;
    throw new NotFound(`There is no snapshot ${id} in pool ${name}.`);
  });
  const { device } = await statusOf(queue, file);
  return { file, sizeBytes, device, [Symbol.asyncDispose]: () => file[Symbol.asyncDispose]() };
}

/** A page of one stretch of data, wherever on the disk it is: for filesystems whose maps we do not rely on. */
async function readStretch(
  queue: DiskQueue,
  image: Descriptor,
  fromBytes: bigint,
  toBytes: bigint,
): Promise<ExtentPage> {
  const data = await nextData(queue, image, fromBytes);
  if (data === undefined) return { extents: [], untilBytes: toBytes };
  const endBytes = data.offsetBytes + data.lengthBytes;
  return {
    extents: [{ ...data, isWritten: true, physicalBytes: undefined }],
    untilBytes: smaller(endBytes, toBytes),
  };
}
