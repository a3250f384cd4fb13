import { smaller } from '../../volume/size.ts';
import type { Descriptor } from '../call/descriptor.ts';
import type { DiskQueue } from '../call/disk-queue.ts';
import { type IoctlRequest, ioctl } from '../call/ioctl.ts';
import type { ByteRange } from './sparse.ts';

/** A part of a file that has blocks. */
export interface Extent extends ByteRange {
  /** false: its blocks were allocated but never written, and read as zeros. */
  readonly isWritten: boolean;
  /** Position on the filesystem's device; undefined if the data has no separate position there, or none yet. */
  readonly physicalBytes: bigint | undefined;
}

/** The result of one call. Where there is no extent before `untilBytes`, there is a hole. */
export interface ExtentPage {
  /** In the order of their offsets. The first may begin before the requested range, and the last may end after it. */
  readonly extents: readonly Extent[];
  readonly untilBytes: bigint;
}

const FS_IOC_FIEMAP: IoctlRequest = { name: 'FS_IOC_FIEMAP', number: 0xc020660b };
const FIEMAP_FLAG_SYNC = 1;

const FIEMAP_EXTENT_LAST = 0x0001;
const FIEMAP_EXTENT_UNKNOWN = 0x0002;
const FIEMAP_EXTENT_DELALLOC = 0x0004;
const FIEMAP_EXTENT_UNWRITTEN = 0x0800;
const FIEMAP_EXTENT_MERGED = 0x1000;
const FIEMAP_EXTENT_SHARED = 0x2000;

/** With any other flag (compressed, inline, not allocated yet, one of a later kernel) the address names no bytes. */
const flagsWithAddress = FIEMAP_EXTENT_LAST | FIEMAP_EXTENT_UNWRITTEN | FIEMAP_EXTENT_MERGED | FIEMAP_EXTENT_SHARED;

/** struct fiemap and struct fiemap_extent (linux/fiemap.h). */
const headerBytes = 32;
const extentBytes = 56;

/** A call takes a worker thread for a millisecond or so. */
export const extentsPerCall = 512;

/**
 * The extents of a range of a file, as many as one call returns (Documentation/filesystems/fiemap.rst). Dirty pages are
 * written back first: before that they have no place, and may count as unwritten.
 */
export async function readExtents(
  queue: DiskQueue,
  file: Descriptor,
  fromBytes: bigint,
  toBytes: bigint,
): Promise<ExtentPage> {
  const map = Buffer.alloc(headerBytes + extentsPerCall * extentBytes);
  map.writeBigUInt64LE(fromBytes, 0);
  map.writeBigUInt64LE(toBytes - fromBytes, 8);
  map.writeUInt32LE(FIEMAP_FLAG_SYNC, 16);
  map.writeUInt32LE(extentsPerCall, 24);
  await ioctl(queue, file, FS_IOC_FIEMAP, map);
  return decodeExtents(map, toBytes);
}

/** A larger page: the caller converts it to numbers at once. */
const placesPerCall = 2_048;
const maximumFileBytes = (1n << 63n) - 1n;

/** The place of an extent on the disk. */
export interface Place {
  readonly physicalBytes: number;
  readonly lengthBytes: number;
  /** true: other files share it (FIEMAP_EXTENT_SHARED). */
  readonly isShared: boolean;
}

/**
 * All extents of a file, a page at a time. Nothing is written back: a shared block with new data in memory still counts
 * as shared. Each call takes its turn in the queue, so a file with very many extents delays no other caller.
 */
export async function* readPlaces(queue: DiskQueue, file: Descriptor): AsyncGenerator<readonly Place[], void, void> {
  const map = Buffer.alloc(headerBytes + placesPerCall * extentBytes);
  for (let fromBytes = 0n; ; ) {
    map.fill(0, 0, headerBytes);
    map.writeBigUInt64LE(fromBytes, 0);
    map.writeBigUInt64LE(maximumFileBytes - fromBytes, 8);
    map.writeUInt32LE(placesPerCall, 24);
    await ioctl(queue, file, FS_IOC_FIEMAP, map);
    const { nextBytes, places } = decodePlaces(map);
    yield places;
    if (nextBytes === undefined || nextBytes <= fromBytes) return;
    fromBytes = nextBytes;
  }
}

/** The bytes of a file's extents that are shared with other files, and those that are not. */
export async function readSharing(
  queue: DiskQueue,
  file: Descriptor,
): Promise<{ readonly sharedBytes: bigint; readonly unsharedBytes: bigint }> {
  let sharedBytes = 0;
  let unsharedBytes = 0;
  for await (const places of readPlaces(queue, file)) {
    for (const { isShared, lengthBytes } of places) {
      if (isShared) sharedBytes += lengthBytes;
      else unsharedBytes += lengthBytes;
    }
  }
  return { sharedBytes: BigInt(sharedBytes), unsharedBytes: BigInt(unsharedBytes) };
}

/** A page of extents, and the start of the next page; undefined: it was the last one. */
function decodePlaces(map: Buffer): { readonly places: Place[]; readonly nextBytes: bigint | undefined } {
  const count = map.readUInt32LE(20);
  const places: Place[] = [];
  let nextBytes: bigint | undefined;
  for (let index = 0; index < count; index++) {
    const at = headerBytes + index * extentBytes;
    const flags = map.readUInt32LE(at + 40);
    const length = map.readBigUInt64LE(at + 16);
    // No disk has 2^53 bytes, and plain numbers are ten times as fast.
    places.push({
      physicalBytes: Number(map.readBigUInt64LE(at + 8)),
      lengthBytes: Number(length),
      isShared: (flags & FIEMAP_EXTENT_SHARED) !== 0,
    });
    nextBytes = (flags & FIEMAP_EXTENT_LAST) !== 0 ? undefined : map.readBigUInt64LE(at) + length;
  }
  return { places, nextBytes };
}

/** Decodes a struct fiemap with room for `extentsPerCall` extents. */
export function decodeExtents(map: Buffer, toBytes: bigint): ExtentPage {
  const count = map.readUInt32LE(20);
  const extents: Extent[] = [];
  for (let index = 0; index < count; index++) extents.push(decodeExtent(map, headerBytes + index * extentBytes));
  const last = extents.at(-1);
  // A full page may be cut off; a page with room left has all extents.
  if (last === undefined || count < extentsPerCall) return { extents, untilBytes: toBytes };
  const endBytes = last.offsetBytes + last.lengthBytes;
  return { extents, untilBytes: smaller(endBytes, toBytes) };
}

function decodeExtent(map: Buffer, at: number): Extent {
  const flags = map.readUInt32LE(at + 40);
  // Dirty pages of such blocks count as written.
  const unwritten = flags & (FIEMAP_EXTENT_UNWRITTEN | FIEMAP_EXTENT_DELALLOC | FIEMAP_EXTENT_UNKNOWN);
  return {
    offsetBytes: map.readBigUInt64LE(at),
    lengthBytes: map.readBigUInt64LE(at + 16),
    isWritten: unwritten !== FIEMAP_EXTENT_UNWRITTEN,
    physicalBytes: (flags & ~flagsWithAddress) === 0 ? map.readBigUInt64LE(at + 8) : undefined,
  };
}

/**
 * The end of the `count`-th extent after an offset; undefined if there are fewer. Dirty pages are not written back, and
 * may get another place later.
 */
export async function endOfExtents(
  queue: DiskQueue,
  file: Descriptor,
  fromBytes: bigint,
  count: number,
): Promise<bigint | undefined> {
  const map = Buffer.alloc(headerBytes + count * extentBytes);
  map.writeBigUInt64LE(fromBytes, 0);
  map.writeBigUInt64LE((1n << 63n) - 1n - fromBytes, 8);
  map.writeUInt32LE(count, 24);
  await ioctl(queue, file, FS_IOC_FIEMAP, map);
  if (map.readUInt32LE(20) < count) return undefined;
  const last = headerBytes + (count - 1) * extentBytes;
  return map.readBigUInt64LE(last) + map.readBigUInt64LE(last + 16);
}
