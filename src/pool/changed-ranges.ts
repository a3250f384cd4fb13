import type { Extent, ExtentPage } from '../kernel/file/fiemap.ts';
import type { ByteRange } from '../kernel/file/sparse.ts';
import { InternalError } from '../volume/errors.ts';
import { smaller } from '../volume/size.ts';

/** Reads the map of one image, a page at a time, from an offset on. */
export type ReadPage = (fromBytes: bigint, toBytes: bigint) => Promise<ExtentPage>;

/** The images to compare, and the range. */
export interface Comparison {
  readonly readTarget: ReadPage;
  /** undefined: compare with nothing, so that all that holds data has changed. */
  readonly base: { readonly readPage: ReadPage; readonly sizeBytes: bigint } | undefined;
  readonly fromBytes: bigint;
  readonly toBytes: bigint;
  /** Aborted when the rest is not wanted. */
  readonly signal: AbortSignal;
}

/**
 * Where the target image has other bytes than the base image, found without reading either: in order, with a gap
 * between any two, from `fromBytes` to `toBytes`. Only ranges that are certainly equal are left out (SM14): those that both
 * have at the same place of the disk, and those that read as zeros in both. Beyond its end the base counts as zeros.
 *
 * Both maps are read side by side, each page when its turn comes, so this takes the same little memory for every size.
 */
export async function* changedRanges(comparison: Comparison): AsyncGenerator<ByteRange, void, void> {
  const { readTarget, base, toBytes, signal } = comparison;
  let fromBytes = comparison.fromBytes;
  // The last range of a window goes on in the next one, it may be.
  let open: ByteRange | undefined;
  while (fromBytes < toBytes) {
    signal.throwIfAborted();
    const before =
      base === undefined || fromBytes >= base.sizeBytes
        ? { extents: [], untilBytes: toBytes }
        : await base.readPage(fromBytes, smaller(base.sizeBytes, toBytes));
    const after = await readTarget(fromBytes, before.untilBytes);
    if (after.untilBytes <= fromBytes) throw new InternalError(`the map of an image ends at ${fromBytes}.`);
    for (const range of differences(before.extents, after.extents, fromBytes, after.untilBytes)) {
      if (open !== undefined && endOf(open) === range.offsetBytes) {
        open = { offsetBytes: open.offsetBytes, lengthBytes: open.lengthBytes + range.lengthBytes };
        continue;
      }
      if (open !== undefined) yield open;
      open = range;
    }
    fromBytes = after.untilBytes;
  }
  if (open !== undefined) yield open;
}

/** Compares a window of two maps; both must tell all about it. Ranges that touch are one. */
export function differences(
  base: readonly Extent[],
  target: readonly Extent[],
  fromBytes: bigint,
  toBytes: bigint,
): ByteRange[] {
  const found: ByteRange[] = [];
  const inBase = new Cursor(base, toBytes);
  const inTarget = new Cursor(target, toBytes);
  let start: bigint | undefined;
  let at = fromBytes;
  while (at < toBytes) {
    inBase.moveTo(at);
    inTarget.moveTo(at);
    if (isSame(inBase, inTarget, at)) {
      if (start !== undefined) found.push({ offsetBytes: start, lengthBytes: at - start });
      start = undefined;
    } else {
      start ??= at;
    }
    // The next place where one of the two maps may change.
    at = smaller(inBase.endBytes, inTarget.endBytes);
  }
  if (start !== undefined) found.push({ offsetBytes: start, lengthBytes: toBytes - start });
  return found;
}

function isSame(base: Cursor, target: Cursor, at: bigint): boolean {
  if (base.data === undefined || target.data === undefined) return base.data === target.data;
  const address = addressAt(base.data, at);
  return address !== undefined && address === addressAt(target.data, at);
}

function addressAt({ offsetBytes, physicalBytes }: Extent, at: bigint): bigint | undefined {
  return physicalBytes === undefined ? undefined : physicalBytes + (at - offsetBytes);
}

function endOf({ offsetBytes, lengthBytes }: ByteRange): bigint {
  return offsetBytes + lengthBytes;
}

/** A place in a map. It only moves forward. */
class Cursor {
  /** The extent here; undefined in a hole or in blocks that were never written: both read as zeros. */
  data: Extent | undefined;
  /** Until where that is so. */
  endBytes = 0n;
  readonly #extents: readonly Extent[];
  readonly #toBytes: bigint;
  #next = 0;

  constructor(extents: readonly Extent[], toBytes: bigint) {
    this.#extents = extents;
    this.#toBytes = toBytes;
  }

  moveTo(at: bigint): void {
    if (at < this.endBytes) return;
    let extent = this.#extents[this.#next];
    while (extent !== undefined && (!extent.isWritten || endOf(extent) <= at)) {
      this.#next++;
      extent = this.#extents[this.#next];
    }
    const isHere = extent !== undefined && extent.offsetBytes <= at;
    this.data = isHere ? extent : undefined;
    const endBytes = extent === undefined ? this.#toBytes : isHere ? endOf(extent) : extent.offsetBytes;
    this.endBytes = smaller(endBytes, this.#toBytes);
  }
}
