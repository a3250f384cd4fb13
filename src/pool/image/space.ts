import type { VolumeId } from '../../volume/id.ts';
import type { VolumeRecord } from '../../volume/record.ts';
import { larger, smaller } from '../../volume/size.ts';
import type { SnapshotRecord } from '../../volume/snapshot-record.ts';
import type { PoolCapacity } from '../pool.ts';

/** What the filesystem and the records say at one moment. All in bytes. */
export interface SpaceUse {
  /** What the pool's filesystem could hold in all. */
  readonly filesystemBytes: bigint;
  /** What can still be written to it. */
  readonly freeBytes: bigint;
  /** Kept free, so that records can always be written and the filesystem never runs full. */
  readonly reserveBytes: bigint;
  /** 1: never promise more than there is. 2: promise twice as much. */
  readonly overcommit: number;
  /** Every volume. */
  readonly volumes: readonly VolumeUse[];
  /** What the trash would give back: it goes as soon as its space is needed. */
  readonly reclaimableBytes: bigint;
  /** Sizes of volumes that are being made or grown now. */
  readonly reservedBytes: bigint;
}

export interface VolumeUse {
  readonly sizeBytes: bigint;
  /** What its image takes now. */
  readonly allocatedBytes: bigint;
  /** Whether a snapshot or clone may share these blocks: then overwriting them takes new ones. */
  readonly isSharing: boolean;
}

/** The volumes whose blocks a snapshot or another volume may share. */
export function sharingVolumes(
  volumes: Iterable<VolumeRecord>,
  snapshots: Iterable<SnapshotRecord>,
): ReadonlySet<VolumeId> {
  const sharing = new Set<VolumeId>();
  for (const { sourceId } of snapshots) sharing.add(sourceId);
  for (const { id, source } of volumes) {
    if (source === undefined) continue;
    sharing.add(id);
    if (source.type === 'volume') sharing.add(source.id);
  }
  return sharing;
}

/**
 * What the pool can still promise. A thin volume may yet claim all that it has not written; so the free space that
 * existing volumes may claim is not available, however empty the disk looks (GC04).
 */
export function computeCapacity(use: SpaceUse): PoolCapacity {
  let promisedBytes = use.reservedBytes;
  let usedBytes = 0n;
  let claimableBytes = use.reservedBytes;
  for (const { sizeBytes, allocatedBytes, isSharing } of use.volumes) {
    promisedBytes += sizeBytes;
    usedBytes += allocatedBytes;
    claimableBytes += isSharing ? sizeBytes : larger(0n, sizeBytes - allocatedBytes);
  }
  const totalBytes = larger(0n, smaller(use.filesystemBytes, use.freeBytes + usedBytes) - use.reserveBytes);
  const overcommittedBytes = scale(totalBytes, use.overcommit) - totalBytes;
  const availableBytes = larger(
    0n,
    use.freeBytes + use.reclaimableBytes - use.reserveBytes - claimableBytes + overcommittedBytes,
  );
  return { totalBytes, promisedBytes, usedBytes, availableBytes };
}

const mebibyte = 1n << 20n;
const gibibyte = 1n << 30n;

/** The reserve nobody chose: 2 % of the filesystem, at least 16 MiB, at most 1 GiB. */
export function defaultReserveBytes(filesystemBytes: bigint): bigint {
  return smaller(gibibyte, larger(16n * mebibyte, filesystemBytes / 50n));
}

/**
 * Free space of a filesystem that lies in a sparse backing file: what it has not yet taken from its host must also be
 * free there.
 */
export function freeInBackingFile(inside: {
  readonly freeBytes: bigint;
  readonly backingSizeBytes: bigint;
  readonly backingAllocatedBytes: bigint;
  readonly hostFreeBytes: bigint;
}): bigint {
  const toBeTaken = larger(0n, inside.backingSizeBytes - inside.backingAllocatedBytes);
  return larger(0n, inside.freeBytes - larger(0n, toBeTaken - inside.hostFreeBytes));
}

/** `bytes` times a factor with three digits after the point. */
function scale(bytes: bigint, factor: number): bigint {
  return (bytes * BigInt(Math.round(factor * 1000))) / 1000n;
}
