import { larger, smaller } from '../../volume/size.ts';
import type { PoolCapacity } from '../pool.ts';

/*
 * The model of a pool's space; docs/space.md tells it. What a volume alone owns it can write over in place. Everything
 * else that it may still write takes new blocks: holes, and blocks that it shares with a snapshot or clone. So the free
 * space must be at least the sum, over all volumes, of size less what the volume alone owns. A write of a volume takes
 * as much of the free space as it adds to what the volume owns, so no write breaks that rule, and no trim.
 */

/** The space of one image. */
export interface ImageUse {
  /** Its blocks, shared or not. */
  readonly allocatedBytes: bigint;
  /** The blocks among them that other files share. */
  readonly sharedBytes: bigint;
}

/** The part of its size that a volume can write without new blocks. */
export function ownedBytes(sizeBytes: bigint, { allocatedBytes, sharedBytes }: ImageUse): bigint {
  return larger(0n, smaller(sizeBytes, allocatedBytes - sharedBytes));
}

/** The figures of the filesystem and of the records at one moment. All in bytes. */
export interface SpaceUse {
  /** The size of the pool's filesystem. */
  readonly filesystemBytes: bigint;
  /** The bytes that can still be written to it. */
  readonly freeBytes: bigint;
  /** Kept free, so that records can always be written and the filesystem never runs full. */
  readonly reserveBytes: bigint;
  /** 1: never provision more than there is. 2: provision twice as much. */
  readonly overcommit: number;
  /** The sizes of all volumes. */
  readonly provisionedBytes: bigint;
  /** The part of them that volumes alone own. */
  readonly ownedBytes: bigint;
  /** The space of all images: of volumes, of snapshots, and in the trash. */
  readonly usedBytes: bigint;
  /** The space that the trash would give back: it is purged as soon as its space is needed. */
  readonly reclaimableBytes: bigint;
  /** The space that operations in progress are going to need. */
  readonly heldBytes: bigint;
}

/**
 * The capacity that the pool can still provision. A thin volume may yet claim all that it does not own; so the free
 * space that existing volumes may claim is not available, however empty the disk looks (GC04).
 */
export function computeCapacity(use: SpaceUse): PoolCapacity {
  const slack = slackBytes(use);
  return {
    totalBytes: totalBytes(use),
    provisionedBytes: use.provisionedBytes + use.heldBytes,
    usedBytes: use.usedBytes,
    availableBytes: larger(0n, slack),
    thickAvailableBytes: larger(0n, smaller(slack, writableBytes(use))),
  };
}

/** The bytes that could be provisioned, if positive; the missing bytes, if negative. */
export function slackBytes(use: SpaceUse): bigint {
  const outstandingBytes = use.provisionedBytes - use.ownedBytes + use.heldBytes;
  const total = totalBytes(use);
  const overcommittedBytes = scale(total, use.overcommit) - total;
  return use.freeBytes + use.reclaimableBytes - use.reserveBytes - outstandingBytes + overcommittedBytes;
}

/** The bytes that can be written at once, whatever else is provisioned. */
export function writableBytes(use: SpaceUse): bigint {
  return use.freeBytes + use.reclaimableBytes - use.reserveBytes - use.heldBytes;
}

/** Data of others on the same filesystem is not the pool's. */
function totalBytes(use: SpaceUse): bigint {
  return larger(0n, smaller(use.filesystemBytes, use.freeBytes + use.usedBytes) - use.reserveBytes);
}

/** Something in the trash, and what its end would give back. */
export interface Expendable<T> {
  readonly entry: T;
  readonly givesBytes: bigint;
}

/**
 * The entries that must be purged to make room for this number of bytes: the oldest deletions first, but none that can stay.
 * An entry that frees nothing, as others share all of it, stays in any case.
 * @param oldestFirst in the order in which they were deleted
 */
export function chooseToPurge<T>(oldestFirst: readonly Expendable<T>[], neededBytes: bigint): T[] {
  const chosen: Expendable<T>[] = [];
  let sum = 0n;
  for (const each of oldestFirst) {
    if (sum >= neededBytes) break;
    if (each.givesBytes === 0n) continue;
    chosen.push(each);
    sum += each.givesBytes;
  }
  // The last one can make some of those before it needless; the smallest are tried first, so that most can stay.
  for (const each of chosen.toSorted((a, b) => (a.givesBytes < b.givesBytes ? -1 : 1))) {
    if (sum - each.givesBytes < neededBytes) break;
    sum -= each.givesBytes;
    chosen.splice(chosen.indexOf(each), 1);
  }
  return chosen.map(({ entry }) => entry);
}

const mebibyte = 1n << 20n;
const gibibyte = 1n << 30n;

/** The default reserve: 2 % of the filesystem, at least 16 MiB, at most 1 GiB. */
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
