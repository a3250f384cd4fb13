import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type { Extent, ExtentPage } from '../kernel/file/fiemap.ts';
import type { ByteRange } from '../kernel/file/sparse.ts';
import { smaller } from '../volume/size.ts';
import { changedRanges, differences, type ReadPage } from './changed-ranges.ts';

/**
 * The byte-model: what an image has at each place, which is a number for a place on the disk, and all that has no such
 * number. An image is a list of cells, which become extents wherever that is possible.
 */
type Cell = number | 'hole' | 'unwritten' | 'placeless';

/** Not a power of two: nothing may depend on alignment. */
const cellBytes = 3n;

/** Few places, so that two images often share one. */
const cell: fc.Arbitrary<Cell> = fc.oneof(
  { weight: 6, arbitrary: fc.integer({ min: 0, max: 5 }) },
  { weight: 2, arbitrary: fc.constantFrom<Cell>('hole', 'unwritten') },
  { weight: 1, arbitrary: fc.constant<Cell>('placeless') },
);
/** Runs of cells that lie in sequence on the disk make long extents, single ones short. */
const cells: fc.Arbitrary<Cell[]> = fc
  .array(fc.tuple(cell, fc.integer({ min: 1, max: 4 })), { maxLength: 12 })
  .map((runs) =>
    runs.flatMap(([start, length]) =>
      Array.from({ length }, (_, index) => (typeof start === 'number' ? start + index : start)),
    ),
  );

/** The map of an image, split into extents at random places too, as filesystems do. */
function extentsOf(image: readonly Cell[], splits: ReadonlySet<number>): Extent[] {
  const extents: Extent[] = [];
  for (const [index, cellHere] of image.entries()) {
    if (cellHere === 'hole') continue;
    const offsetBytes = BigInt(index) * cellBytes;
    const previous = extents.at(-1);
    const physicalBytes = typeof cellHere === 'number' ? BigInt(cellHere) * cellBytes : undefined;
    const isWritten = cellHere !== 'unwritten';
    const touches = previous !== undefined && previous.offsetBytes + previous.lengthBytes === offsetBytes;
    const follows = touches && previous.isWritten === isWritten && nextPlace(previous) === physicalBytes;
    if (follows && !splits.has(index)) {
      extents[extents.length - 1] = { ...previous, lengthBytes: previous.lengthBytes + cellBytes };
    } else {
      extents.push({ offsetBytes, lengthBytes: cellBytes, isWritten, physicalBytes });
    }
  }
  return extents;
}

function nextPlace({ lengthBytes, physicalBytes }: Extent): bigint | undefined {
  return physicalBytes === undefined ? undefined : physicalBytes + lengthBytes;
}

/** The expected answer, byte by byte. */
function isChanged(base: Cell | undefined, target: Cell | undefined): boolean {
  const zeros: readonly (Cell | undefined)[] = ['hole', 'unwritten', undefined];
  if (zeros.includes(base) || zeros.includes(target)) return zeros.includes(base) !== zeros.includes(target);
  return base === 'placeless' || base !== target;
}

function changedBytes(base: readonly Cell[], target: readonly Cell[], from: number, to: number): number[] {
  const bytes: number[] = [];
  for (let byte = from; byte < to; byte++) {
    const index = Math.floor(byte / Number(cellBytes));
    if (isChanged(base[index], target[index])) bytes.push(byte);
  }
  return bytes;
}

function bytesIn(ranges: readonly ByteRange[]): number[] {
  return ranges.flatMap(({ lengthBytes, offsetBytes }) =>
    Array.from({ length: Number(lengthBytes) }, (_, index) => Number(offsetBytes) + index),
  );
}

/** Reads a map as the kernel does: whole extents that overlap the range, this number at once. */
function pagesOf(extents: readonly Extent[], extentsPerPage: number): ReadPage {
  return async (fromBytes, toBytes): Promise<ExtentPage> => {
    const overlapping = extents.filter(
      ({ lengthBytes, offsetBytes }) => offsetBytes < toBytes && offsetBytes + lengthBytes > fromBytes,
    );
    const page = overlapping.slice(0, extentsPerPage);
    const last = page.at(-1);
    if (last === undefined || page.length < extentsPerPage) return { extents: page, untilBytes: toBytes };
    const endBytes = last.offsetBytes + last.lengthBytes;
    return { extents: page, untilBytes: smaller(endBytes, toBytes) };
  };
}

const never = new AbortController().signal;

async function collect(ranges: AsyncIterable<ByteRange>): Promise<ByteRange[]> {
  const list: ByteRange[] = [];
  for await (const range of ranges) list.push(range);
  return list;
}

/** SM06, and as few as there can be. */
function assertOrdered(ranges: readonly ByteRange[], from: number, to: number): void {
  let endBytes = BigInt(from) - 1n;
  for (const { lengthBytes, offsetBytes } of ranges) {
    assert.ok(lengthBytes > 0n);
    assert.ok(offsetBytes > endBytes, 'ranges that touch are one');
    endBytes = offsetBytes + lengthBytes;
  }
  assert.ok(endBytes <= BigInt(to));
}

const splits = fc.uniqueArray(fc.nat(47)).map((list) => new Set(list));
const images = fc.record({ base: cells, target: cells, baseSplits: splits, targetSplits: splits });
/** Any window of the images, and beyond their ends. */
const window = fc.tuple(fc.nat(150), fc.nat(150)).map(([a, b]) => ({ from: Math.min(a, b), to: Math.max(a, b) }));

describe('the difference of two maps', () => {
  test('SM14: exactly the bytes that the byte-model calls changed', () => {
    fc.assert(
      fc.property(images, window, ({ base, target, baseSplits, targetSplits }, { from, to }) => {
        const ranges = differences(
          extentsOf(base, baseSplits),
          extentsOf(target, targetSplits),
          BigInt(from),
          BigInt(to),
        );
        assertOrdered(ranges, from, to);
        assert.deepEqual(bytesIn(ranges), changedBytes(base, target, from, to));
      }),
      { numRuns: 3000 },
    );
  });

  test('SM14: the same map twice differs where it names no place', () => {
    const extents: Extent[] = [
      { offsetBytes: 0n, lengthBytes: 10n, isWritten: true, physicalBytes: 100n },
      { offsetBytes: 10n, lengthBytes: 10n, isWritten: true, physicalBytes: undefined },
      { offsetBytes: 20n, lengthBytes: 10n, isWritten: false, physicalBytes: 300n },
    ];
    assert.deepEqual(differences(extents, extents, 0n, 40n), [{ offsetBytes: 10n, lengthBytes: 10n }]);
  });

  test('L12: offsets beyond 2^53 stay exact', () => {
    const far = 2n ** 62n + 1n;
    const at = (physicalBytes: bigint): Extent[] => [
      { offsetBytes: far, lengthBytes: 2n, isWritten: true, physicalBytes },
    ];
    assert.deepEqual(differences(at(far), at(far), 0n, 2n ** 63n - 1n), []);
    assert.deepEqual(differences(at(far), at(far + 1n), 0n, 2n ** 63n - 1n), [{ offsetBytes: far, lengthBytes: 2n }]);
  });
});

describe('the ranges that changed, read page by page', () => {
  test('SM06 SM11 SM14: the same bytes for pages of any size, and from any offset on', async () => {
    const pageSizes = fc.tuple(fc.integer({ min: 1, max: 5 }), fc.integer({ min: 1, max: 5 }));
    const baseCells = fc.nat(48);
    await fc.assert(
      fc.asyncProperty(images, window, pageSizes, baseCells, async (maps, { from, to }, [inBase, inTarget], length) => {
        const { base, target, baseSplits, targetSplits } = maps;
        const ranges = await collect(
          changedRanges({
            readTarget: pagesOf(extentsOf(target, targetSplits), inTarget),
            base: { readPage: pagesOf(extentsOf(base, baseSplits), inBase), sizeBytes: BigInt(length) * cellBytes },
            fromBytes: BigInt(from),
            toBytes: BigInt(to),
            signal: never,
          }),
        );
        assertOrdered(ranges, from, to);
        // Data in the file of the base beyond the end of its volume counts for nothing.
        assert.deepEqual(bytesIn(ranges), changedBytes(base.slice(0, length), target, from, to));
      }),
      { numRuns: 2000 },
    );
  });

  test('SM11: from the end of any range on there is exactly the rest', async () => {
    await fc.assert(
      fc.asyncProperty(images, async ({ base, target, baseSplits, targetSplits }) => {
        const from = (fromBytes: bigint) =>
          collect(
            changedRanges({
              readTarget: pagesOf(extentsOf(target, targetSplits), 3),
              base: { readPage: pagesOf(extentsOf(base, baseSplits), 2), sizeBytes: 144n },
              fromBytes,
              toBytes: 144n,
              signal: never,
            }),
          );
        const all = await from(0n);
        for (const [index, { lengthBytes, offsetBytes }] of all.entries()) {
          assert.deepEqual(await from(offsetBytes + lengthBytes), all.slice(index + 1));
        }
      }),
      { numRuns: 300 },
    );
  });

  test('SM14: compared with nothing, what is written has changed and what reads as zeros has not', async () => {
    await fc.assert(
      fc.asyncProperty(cells, splits, async (target, targetSplits) => {
        const ranges = await collect(
          changedRanges({
            readTarget: pagesOf(extentsOf(target, targetSplits), 2),
            base: undefined,
            fromBytes: 0n,
            toBytes: 144n,
            signal: never,
          }),
        );
        assertOrdered(ranges, 0, 144);
        assert.deepEqual(bytesIn(ranges), changedBytes([], target, 0, 144));
      }),
    );
  });

  test('SM12 SM13: a page that cannot be read, and nobody who listens, are errors and no end', async () => {
    const extent: Extent = { offsetBytes: 0n, lengthBytes: 10n, isWritten: true, physicalBytes: 0n };
    const gone = new AbortController();
    const readTarget: ReadPage = async (fromBytes) => {
      if (fromBytes === 0n) return { extents: [extent], untilBytes: 10n };
      throw new Error('bad sector');
    };
    const comparison = { readTarget, base: undefined, fromBytes: 0n, toBytes: 20n };
    await assert.rejects(collect(changedRanges({ ...comparison, signal: never })), /bad sector/);
    gone.abort();
    await assert.rejects(collect(changedRanges({ ...comparison, signal: gone.signal })), { name: 'AbortError' });
    const stuck: ReadPage = async (fromBytes) => ({ extents: [], untilBytes: fromBytes });
    await assert.rejects(collect(changedRanges({ ...comparison, readTarget: stuck, signal: never })), /ends at 0/);
  });
});
