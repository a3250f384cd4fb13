import type { Filling, ThinPoolStatus } from '../../../../kernel/block/thin-status.ts';
import { larger, smaller } from '../../../../volume/size.ts';

/*
 * The sizes of the parts of a thin pool, and when they grow. A thin pool whose metadata runs full cannot be written to until
 * that has grown, and where it was cut short in the middle of a change it needs a check offline. So there is more of it than
 * is ever needed at once, and it grows long before its end.
 */

const kibibyte = 1n << 10n;
const mebibyte = 1n << 20n;
const gibibyte = 1n << 30n;

const smallestChunkBytes = 64n * kibibyte;
/** More of them need more metadata than is read in good time at a start. */
const maxChunks = 16n * mebibyte;
/** The estimate of lvmthin(7); doubled for snapshots, which have separate maps where they differ. */
const bytesPerChunk = 64n * 2n;
const smallestMetadataBytes = 16n * mebibyte;
/** lvmthin(7): LVM gives no more, as dm-thin uses no more. */
export const largestMetadataBytes = 15n * gibibyte;

/**
 * The size of the pieces in which data is allocated. Small ones: the rest of a new piece is filled up with zeros at its first
 * write, and a shared piece is copied at its first write after a snapshot.
 */
export function chunkBytesFor(sizeBytes: bigint): bigint {
  let chunkBytes = smallestChunkBytes;
  while (sizeBytes > chunkBytes * maxChunks) chunkBytes *= 2n;
  return chunkBytes;
}

/** Metadata to begin with. */
export function metadataBytesFor(sizeBytes: bigint, chunkBytes: bigint): bigint {
  return smaller(largestMetadataBytes, larger(smallestMetadataBytes, (sizeBytes / chunkBytes) * bytesPerChunk));
}

const growDataAtPercent = 80n;
const growMetadataAtPercent = 50n;
const alarmDataAtPercent = 90n;
const alarmMetadataAtPercent = 75n;

/** The shortage of a thin pool. */
export interface Shortage {
  /** By which data grows: a fifth of what there is; 0: it need not. */
  readonly moreDataBytes: bigint;
  /** By which metadata grows: what there is once more; 0: it need not. */
  readonly moreMetadataBytes: bigint;
  /** The part that is nearly full: nothing new is made any more, and it is reported everywhere. */
  readonly alarm: 'data' | 'metadata' | 'mode' | undefined;
}

const isLow = ({ totalBytes, usedBytes }: Filling, percent: bigint) => usedBytes * 100n >= totalBytes * percent;

/** @param isOvercommitted more was promised than there is: else data cannot run out */
export function shortageOf(status: ThinPoolStatus, isOvercommitted: boolean): Shortage {
  const { data, metadata } = status;
  const alarm = alarmOf(status, isOvercommitted);
  // A check must come first.
  if (isBroken(status)) return { moreDataBytes: 0n, moreMetadataBytes: 0n, alarm };
  const growsData = isOvercommitted && isLow(data, growDataAtPercent);
  const growsMetadata = isLow(metadata, growMetadataAtPercent) && metadata.totalBytes < largestMetadataBytes;
  return {
    moreDataBytes: growsData ? data.totalBytes / 5n : 0n,
    moreMetadataBytes: growsMetadata ? smaller(metadata.totalBytes, largestMetadataBytes - metadata.totalBytes) : 0n,
    alarm,
  };
}

/** Only an offline check, or a repair, would make it whole. */
export function isBroken({ mode, needsCheck }: Pick<ThinPoolStatus, 'mode' | 'needsCheck'>): boolean {
  return mode === 'fail' || needsCheck;
}

function alarmOf(status: ThinPoolStatus, isOvercommitted: boolean): Shortage['alarm'] {
  const { data, metadata, mode } = status;
  if (isBroken(status)) return 'mode';
  if (isLow(metadata, alarmMetadataAtPercent)) return 'metadata';
  if (mode === 'out_of_data_space' || (isOvercommitted && isLow(data, alarmDataAtPercent))) return 'data';
  return mode === 'ro' ? 'mode' : undefined;
}

/**
 * The growth that fits into the free bytes: in whole extents, and at least one if there is one.
 */
export function growthWithin(wantedBytes: bigint, freeBytes: bigint, extentBytes: bigint): bigint {
  if (wantedBytes === 0n) return 0n;
  const wanted = larger(wantedBytes, extentBytes);
  const bytes = smaller(wanted, freeBytes);
  return bytes - (bytes % extentBytes);
}
