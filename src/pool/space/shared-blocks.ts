import type { Place } from '../../kernel/file/fiemap.ts';

/** Only numbers are kept of a place, and sorted in a moment; more of them would hold the driver up. */
const maxPlaces = 1 << 18;

/** The shared blocks of images, when each block counts once. */
export interface SharedBlocks {
  /** By how much the sum of what all images take is too large. */
  readonly duplicateBytes: bigint;
  /** The bytes of snapshots alone: they would be free without them. */
  readonly snapshotBytes: bigint;
}

/** The places of blocks on the disk, some of them more than once. */
class Places {
  readonly #starts: number[] = [];
  readonly #ends: number[] = [];
  totalBytes = 0;

  get count(): number {
    return this.#starts.length;
  }

  add({ lengthBytes, physicalBytes }: Place): void {
    this.#starts.push(physicalBytes);
    this.#ends.push(physicalBytes + lengthBytes);
    this.totalBytes += lengthBytes;
  }

  /** The number of bytes that are in at least one of them. */
  unionBytes(): number {
    const starts = Float64Array.from(this.#starts).sort();
    const ends = Float64Array.from(this.#ends).sort();
    let union = 0;
    let begun = 0;
    let open = 0;
    for (let start = 0, end = 0; end < ends.length; ) {
      const nextStart = starts[start] ?? Number.POSITIVE_INFINITY;
      const nextEnd = ends[end] ?? 0;
      if (nextStart < nextEnd) {
        if (open++ === 0) begun = nextStart;
        start++;
      } else {
        if (--open === 0) union += nextEnd - begun;
        end++;
      }
    }
    return union;
  }
}

/** An image that others may share blocks of. */
export interface SharingImage {
  readonly isSnapshot: boolean;
  readonly places: AsyncIterable<readonly Place[]>;
}

/**
 * Looks at where the blocks of images lie, one image after another.
 * @returns undefined if there are too many of them
 */
export async function findSharedBlocks(images: Iterable<SharingImage>): Promise<SharedBlocks | undefined> {
  const all = new Places();
  const others = new Places();
  let ownedBySnapshots = 0;
  for (const { isSnapshot, places } of images) {
    for await (const page of places) {
      for (const place of page) {
        if (place.isShared) all.add(place);
        if (place.isShared && !isSnapshot) others.add(place);
        if (!place.isShared && isSnapshot) ownedBySnapshots += place.lengthBytes;
      }
      if (all.count > maxPlaces) return undefined;
    }
  }
  const union = all.unionBytes();
  return {
    duplicateBytes: BigInt(all.totalBytes - union),
    snapshotBytes: BigInt(ownedBySnapshots + union - others.unionBytes()),
  };
}
