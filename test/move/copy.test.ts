import assert from 'node:assert/strict';
import { createHash, randomBytes, randomFillSync } from 'node:crypto';
import { constants, readFileSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { openFile } from '../../src/kernel/call/descriptor.ts';
import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import { alignedMemory } from '../../src/kernel/file/direct.ts';
import { writeAt } from '../../src/kernel/file/file.ts';
import { type ByteRange, punchHole } from '../../src/kernel/file/sparse.ts';
import {
  bytesIn,
  type CopyWork,
  copyRanges,
  dataRanges,
  type Piece,
  type PieceWork,
  piecesAhead,
} from '../../src/move/copy.ts';
import { BytesPerSecond } from '../../src/move/pace.ts';
import type { IncomingBytes } from '../../src/pool/moves.ts';
import { openPaths } from '../support/open-paths.ts';
import { Scratch } from '../support/scratch.ts';

const mib = 1 << 20;
const sizeBytes = 8 * mib;
const queue = new DiskQueue('test', 4);

interface Copied {
  readonly content: Buffer;
  readonly allocatedBytes: number;
  readonly notes: readonly bigint[];
  readonly copiedBytes: bigint;
}

/** Copies ranges of a source over a target with the given content. */
async function copy(
  source: Buffer,
  target: Buffer | undefined,
  { ranges: wanted = ranges([0, sizeBytes]), ...changes }: Partial<CopyWork & Pick<PieceWork, 'ranges'>> = {},
  zeroOf = (data: CopyWork['to']['data']) => (range: ByteRange) => punchHole(queue, data, range),
): Promise<Copied> {
  using scratch = new Scratch('copy');
  writeFileSync(scratch.join('from'), source);
  writeFileSync(scratch.join('to'), target ?? '');
  truncateSync(scratch.join('to'), sizeBytes);
  await using from = await openFile(queue, scratch.join('from'), constants.O_RDONLY);
  await using data = await openFile(queue, scratch.join('to'), constants.O_RDWR);
  const incoming = { data, zero: zeroOf(data) } as IncomingBytes;
  const notes: bigint[] = [];
  let copiedBytes = 0n;
  const { endBytes = BigInt(sizeBytes), fromBytes = 0n } = changes;
  await copyRanges({
    ...{ to: incoming, toQueue: queue, endBytes, targetBytes: BigInt(sizeBytes), fromBytes },
    pieces: piecesAhead({ from, fromQueue: queue, ranges: wanted, endBytes, fromBytes }),
    outside: 'zeros',
    pace: new BytesPerSecond(undefined),
    signal: new AbortController().signal,
    noted: async (offset) => void notes.push(offset),
    moved: (bytes) => {
      copiedBytes += bytes;
    },
    ...changes,
  });
  const content = readFileSync(scratch.join('to'));
  return { content, allocatedBytes: statSync(scratch.join('to')).blocks * 512, notes, copiedBytes };
}

async function* ranges(...list: (readonly [number, number])[]): AsyncGenerator<ByteRange, void, void> {
  for (const [from, to] of list) yield { offsetBytes: BigInt(from), lengthBytes: BigInt(to - from) };
}

/** Zeros, but for a stretch. */
function withData(from: number, to: number, byte?: number): Buffer {
  const bytes = Buffer.alloc(sizeBytes);
  (byte === undefined ? randomBytes(to - from) : Buffer.alloc(to - from, byte)).copy(bytes, from);
  return bytes;
}

describe('the copy of ranges', () => {
  test('has the same bytes; zeros stay holes, and over old data they are zeros', async () => {
    const source = withData(3 * mib + 5, 4 * mib + 4097);
    const fresh = await copy(source, undefined);
    assert.ok(fresh.content.equals(source));
    assert.equal(fresh.allocatedBytes, 2 * mib);
    assert.deepEqual(fresh.notes, [BigInt(sizeBytes)]);
    const over = await copy(source, withData(0, sizeBytes), { outside: 'earlier' });
    assert.ok(over.content.equals(source));
    assert.equal(over.allocatedBytes, 2 * mib);
  });

  test('leaves what lies outside as it is, or makes it zeros where it may be anything', async () => {
    const [source, before] = [withData(0, sizeBytes, 1), withData(0, sizeBytes, 2)];
    const some = { ranges: ranges([2 * mib, 3 * mib]) };
    const earlier = await copy(source, before, { ...some, outside: 'earlier' });
    assert.deepEqual([earlier.content[2 * mib - 1], earlier.content[2 * mib], earlier.content[3 * mib]], [2, 1, 2]);
    const anything = await copy(source, before, { ranges: ranges([2 * mib, 3 * mib]), outside: 'anything' });
    assert.deepEqual([anything.content[2 * mib - 1], anything.content[2 * mib], anything.content[3 * mib]], [0, 1, 0]);
    assert.equal(anything.allocatedBytes, mib);
    const larger = { endBytes: BigInt(4 * mib), ranges: ranges([0, 4 * mib]), outside: 'anything' } as const;
    assert.equal((await copy(source.subarray(0, 4 * mib), before, larger)).content[4 * mib], 0);
  });

  test('over a clone of what is nearly the same writes only what differs, also where the source has a hole', async () => {
    const source = withData(2 * mib, 5 * mib);
    source.fill(0, 3 * mib + 4096, 3 * mib + 8192);
    const before = Buffer.from(source);
    before.fill(7, 0, 4096);
    before.fill(7, 2 * mib + 8192, 2 * mib + 12_288);
    before.fill(7, 3 * mib + 4096, 3 * mib + 12_288);
    before.fill(7, 6 * mib, 7 * mib);
    const zeroed: ByteRange[] = [];
    const zero = (data: CopyWork['to']['data']) => async (range: ByteRange) => {
      zeroed.push(range);
      await punchHole(queue, data, range);
    };
    const found = await copy(source, before, { outside: 'alike' }, zero);
    assert.ok(found.content.equals(source));
    // The 4 KiB that are zeros within the data are written as the rest of their piece is.
    assert.deepEqual(
      zeroed.map(({ lengthBytes, offsetBytes }) => [Number(offsetBytes), Number(lengthBytes)]),
      [
        [0, 4096],
        [6 * mib, mib],
      ],
    );
    // All but the ranges that the source tells of are compared with zeros.
    const told = await copy(source, before, { outside: 'alike', ranges: ranges([2 * mib, 5 * mib]) }, zero);
    assert.ok(told.content.equals(source));
  });

  test('begins where an earlier try has stopped', async () => {
    const source = withData(0, sizeBytes, 1);
    const { content, copiedBytes } = await copy(source, undefined, { fromBytes: BigInt(5 * mib) });
    assert.equal(copiedBytes, BigInt(3 * mib));
    assert.deepEqual([content[5 * mib - 1], content[5 * mib]], [0, 1]);
  });

  test('of a source that is cut off has what came until then; one that is cancelled does nothing more', async () => {
    async function* cut(): AsyncGenerator<ByteRange, void, void> {
      yield* ranges([0, 6 * mib]);
      throw new Error('cut off');
    }
    const notes: bigint[] = [];
    const noted = async (offset: bigint) => void notes.push(offset);
    const source = withData(0, sizeBytes);
    const one = (pieces: AsyncIterable<ByteRange>) => ({ ranges: pieces, noted });
    await assert.rejects(copy(source, undefined, one(cut())), /cut off/);
    // Three more were being read.
    assert.deepEqual(notes.splice(0), [BigInt(3 * mib)]);
    await assert.rejects(copy(source, undefined, { ...one(cut()), signal: AbortSignal.abort() }));
    assert.deepEqual(notes, []);
  });

  test('of pieces that are no whole blocks is refused: each takes memory', async () => {
    for (const [offsetBytes, lengthBytes] of [
      [0, 1],
      [1, mib],
      [512, 4096 - 512],
      [4096, 4095],
    ] as const) {
      const bytes = alignedMemory(lengthBytes);
      const digest = createHash('sha256').update(bytes).digest();
      async function* one(): AsyncGenerator<Piece, void, void> {
        yield { offsetBytes: BigInt(offsetBytes), lengthBytes, data: { bytes, digest, free: () => undefined } };
      }
      await assert.rejects(copy(Buffer.alloc(0), undefined, { pieces: one() }), /are no whole blocks/);
    }
  });

  test('leaves a piece its memory until it is written', async () => {
    const slow = new DiskQueue('slow', 1);
    const bytes = alignedMemory(mib);
    randomFillSync(bytes);
    const digest = createHash('sha256').update(bytes).digest();
    let freed = 0;
    async function* one(): AsyncGenerator<Piece, void, void> {
      const disk = Promise.withResolvers<void>();
      const waiting = slow.run(() => disk.promise);
      try {
        yield { offsetBytes: 0n, lengthBytes: mib, data: { bytes, digest, free: () => void freed++ } };
        for (let turn = 0; turn < 100; turn++) await new Promise(setImmediate);
        assert.equal(freed, 0);
      } finally {
        disk.resolve();
      }
      await waiting;
    }
    const { content } = await copy(Buffer.alloc(0), undefined, { pieces: one(), toQueue: slow });
    assert.equal(freed, 1);
    assert.ok(content.subarray(0, mib).equals(bytes));
  });

  test('has nothing of the source open once its reader has left, while more was being read', async () => {
    using scratch = new Scratch('copy');
    const path = scratch.join('from');
    writeFileSync(path, randomBytes(sizeBytes));
    await using from = await openFile(queue, path, constants.O_RDONLY);
    // A direct read is under way in most of these rounds, and in none of them is anything left.
    for (let round = 0; round < 20; round++) {
      for await (const piece of piecesAhead({
        ...{ from, fromQueue: queue, ranges: ranges([0, sizeBytes]), endBytes: BigInt(sizeBytes), fromBytes: 0n },
      })) {
        assert.equal(piece.offsetBytes, 0n);
        break;
      }
      assert.deepEqual(
        openPaths().filter((each) => each === path),
        [path],
      );
    }
  });

  test('is compared with what the disk has, before it is noted', async () => {
    const notes: bigint[] = [];
    using scratch = new Scratch('copy');
    writeFileSync(scratch.join('to'), '');
    truncateSync(scratch.join('to'), sizeBytes);
    await using data = await openFile(queue, scratch.join('to'), constants.O_RDWR);
    await assert.rejects(
      copy(withData(0, sizeBytes), undefined, {
        to: { data } as IncomingBytes,
        // Something else writes to it.
        pace: { took: () => writeAt(queue, data, Buffer.from('other'), 4096n) },
        noted: async (offset) => void notes.push(offset),
      }),
      { name: 'DataLoss', message: /has other bytes at 0 of .* than were written/ },
    );
    assert.deepEqual(notes, []);
  });

  test('reads what a sparse file has, and no more', async () => {
    using scratch = new Scratch('copy');
    writeFileSync(scratch.join('from'), '');
    truncateSync(scratch.join('from'), sizeBytes);
    await using file = await openFile(queue, scratch.join('from'), constants.O_RDWR);
    await writeAt(queue, file, randomBytes(mib), BigInt(2 * mib));
    await writeAt(queue, file, randomBytes(mib), BigInt(5 * mib));
    assert.equal(await bytesIn(dataRanges(queue, file, 0n, BigInt(sizeBytes))), BigInt(2 * mib));
    assert.equal(await bytesIn(dataRanges(queue, file, BigInt(4 * mib), BigInt(sizeBytes))), BigInt(mib));
  });
});
