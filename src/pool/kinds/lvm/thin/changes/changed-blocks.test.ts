import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { checksumOf, metadataBlockBytes } from '../../../../../kernel/block/thin-metadata.ts';
import type { ByteRange } from '../../../../../kernel/file/sparse.ts';
import { DataLoss, NotFound } from '../../../../../volume/errors.ts';
import { type SnapshotId, snapshotIdFor, volumeIdFor } from '../../../../../volume/id.ts';
import type { SnapshotRecord } from '../../../../../volume/snapshot-record.ts';
import type { OwnLv } from '../../group/group-state.ts';
import { type ThinChangesParts, thinChangedBlocks } from './changed-blocks.ts';
import { MappingTrees } from './mapping-trees.ts';

/** Which chunk of the pool each chunk of a device has. */
type Chunks = ReadonlyMap<number, number>;

const chunkBytes = 65_536n;
const superblock = 7n;

/** Metadata as the kernel writes it, but with few entries in each node. Nodes with the same in them are one, as after a snapshot. */
class Metadata {
  readonly blocks = new Map<bigint, Buffer>();
  readonly #known = new Map<string, bigint>();
  #next = 100n;

  constructor(devices: ReadonlyMap<bigint, Chunks>) {
    const roots = [...devices].map(([id, chunks]) => {
      const entries = [...chunks].sort(([a], [b]) => a - b);
      return [id, this.#tree(entries.map(([key, place]) => [BigInt(key), (BigInt(place) << 24n) | 5n]))] as const;
    });
    const bytes = Buffer.alloc(metadataBlockBytes);
    bytes.writeBigUInt64LE(superblock, 8);
    bytes.writeBigUInt64LE(27_022_010n, 32);
    bytes.writeBigUInt64LE(this.#tree(roots), 320);
    bytes.writeUInt32LE(Number(chunkBytes) / 512, 336);
    bytes.writeUInt32LE(checksumOf(bytes, 160_774), 0);
    this.blocks.set(superblock, bytes);
  }

  /** The places of entries in leaves are fixed, so that a change of one leaves the others as they are. */
  #tree(entries: readonly (readonly [bigint, bigint])[]): bigint {
    let level = this.#nodes(entries, 4n, true);
    for (let width = 16n; level.length > 1; width *= 4n) level = this.#nodes(level, width, false);
    return level[0]?.[1] ?? this.#node([], true);
  }

  #nodes(
    entries: readonly (readonly [bigint, bigint])[],
    width: bigint,
    isLeaf: boolean,
  ): (readonly [bigint, bigint])[] {
    const groups = Map.groupBy(entries, ([key]) => key / width);
    return [...groups.values()].map((group) => [group[0]?.[0] ?? 0n, this.#node(group, isLeaf)]);
  }

  #node(entries: readonly (readonly [bigint, bigint])[], isLeaf: boolean): bigint {
    const text = `${isLeaf} ${entries.join(' ')}`;
    const known = this.#known.get(text);
    if (known !== undefined) return known;
    const block = this.#next++;
    const room = 252;
    const bytes = Buffer.alloc(metadataBlockBytes);
    bytes.writeUInt32LE(isLeaf ? 2 : 1, 4);
    bytes.writeBigUInt64LE(block, 8);
    for (const [index, number] of [entries.length, room, 8].entries()) bytes.writeUInt32LE(number, 16 + 4 * index);
    for (const [index, [key, value]] of entries.entries()) {
      bytes.writeBigUInt64LE(key, 32 + 8 * index);
      bytes.writeBigUInt64LE(value, 32 + 8 * (room + index));
    }
    bytes.writeUInt32LE(checksumOf(bytes, 121_107), 0);
    this.blocks.set(block, bytes);
    this.#known.set(text, block);
    return block;
  }
}

const sourceId = volumeIdFor('node', 'pool', 'a');
const [baseId, targetId] = [snapshotIdFor('node', 'base'), snapshotIdFor('node', 'target')];
const thinIds = new Map<SnapshotId, bigint>([
  [baseId, 3n],
  [targetId, 9n],
]);

interface Scene {
  readonly base: Chunks;
  readonly target: Chunks;
  readonly baseBytes: bigint;
  readonly targetBytes: bigint;
}

function recordOf(id: SnapshotId, sizeBytes: bigint): SnapshotRecord {
  return {
    id,
    name: '',
    sourceId,
    sizeBytes,
    content: { type: 'block' },
    createdAt: '',
    parameters: {},
  } as SnapshotRecord;
}

/** @param reads called with the number of each read, before it */
function partsOf(
  metadata: Metadata,
  seen: { onRead?: (count: number) => void; reads: number; gone?: SnapshotId },
): ThinChangesParts {
  const lvOf = (id: SnapshotId) => ({ name: `${id}.0`, thinId: thinIds.get(id) }) as OwnLv;
  let number = 0;
  return {
    group: {
      ...{ name: 'vg0', poolName: 'fast', refresh: async () => undefined },
      find: (id) => (id === seen.gone ? undefined : lvOf(id as SnapshotId)),
    },
    snapshots: {
      lastNumber: 0,
      // Another one each time, as if each page came much later.
      read: async (_after, work) => {
        seen.onRead?.(number);
        const readBlock = async (block: bigint) => {
          seen.reads++;
          return metadata.blocks.get(block) ?? assert.fail(`block ${block} is read`);
        };
        return work(await MappingTrees.open('fast', readBlock, superblock), ++number);
      },
    },
  };
}

async function rangesOf(
  { base, baseBytes, target, targetBytes }: Scene,
  {
    fromBytes = 0n,
    isAllocated = false,
    seen = { reads: 0 },
  }: { fromBytes?: bigint; isAllocated?: boolean; seen?: Parameters<typeof partsOf>[1] } = {},
): Promise<ByteRange[]> {
  // A device before, between and behind them.
  const others: Chunks = new Map([[0, 99]]);
  const metadata = new Metadata(
    new Map([
      [1n, others],
      [3n, base],
      [5n, others],
      [9n, target],
      [12n, others],
    ]),
  );
  const find = (id: SnapshotId) => recordOf(id, id === baseId ? baseBytes : targetBytes);
  const request = {
    base: isAllocated ? undefined : baseId,
    target: targetId,
    fromBytes,
    signal: new AbortController().signal,
  };
  const ranges: ByteRange[] = [];
  for await (const range of thinChangedBlocks(partsOf(metadata, seen), request, find)) ranges.push(range);
  return ranges;
}

/** The answer by the definition, chunk by chunk, in pieces of half a chunk: sizes may end in the middle of one. */
function expected({ base, baseBytes, target, targetBytes }: Scene, fromBytes: bigint): bigint[] {
  const piece = chunkBytes / 2n;
  const pieces: bigint[] = [];
  for (let at = fromBytes; at < targetBytes; at += piece) {
    const chunk = Number(at / chunkBytes);
    if ((at < baseBytes ? base.get(chunk) : undefined) !== target.get(chunk)) pieces.push(at);
  }
  return pieces;
}

function piecesIn(ranges: readonly ByteRange[]): bigint[] {
  const piece = chunkBytes / 2n;
  return ranges.flatMap(({ lengthBytes, offsetBytes }) => {
    assert.equal(lengthBytes % piece, 0n);
    return Array.from({ length: Number(lengthBytes / piece) }, (_, index) => offsetBytes + BigInt(index) * piece);
  });
}

const lastChunk = 200;
const chunks = fc
  .array(fc.record({ at: fc.nat(lastChunk), place: fc.nat(1000), length: fc.integer({ min: 1, max: 40 }) }), {
    maxLength: 8,
  })
  .map(
    (runs) =>
      new Map(
        runs.flatMap(({ at, length, place }) =>
          Array.from({ length }, (_, index) => [at + index, place + index] as const),
        ),
      ),
  );
const changes = fc.array(fc.tuple(fc.nat(lastChunk), fc.option(fc.nat(1000))), { maxLength: 6 });
const halves = fc.integer({ min: 1, max: 2 * lastChunk + 100 }).map((count) => BigInt(count) * (chunkBytes / 2n));
const scenes = fc
  .record({ base: chunks, changed: changes, baseBytes: halves, targetBytes: halves })
  .map(({ changed, ...scene }): Scene => {
    const target = new Map(scene.base);
    for (const [chunk, place] of changed) {
      if (place === null) target.delete(chunk);
      else target.set(chunk, place);
    }
    return { ...scene, target };
  });

describe('changed blocks of thin volumes', () => {
  test('SM14 SM06: exactly the chunks that have other places, cut to the sizes, from any offset on', async () => {
    await fc.assert(
      fc.asyncProperty(scenes, halves, async (scene, fromBytes) => {
        for (const from of [0n, fromBytes]) {
          const ranges = await rangesOf(scene, { fromBytes: from });
          assert.deepEqual(piecesIn(ranges), expected(scene, from));
          let endBytes = -1n;
          for (const { lengthBytes, offsetBytes } of ranges) {
            assert.ok(offsetBytes > endBytes && lengthBytes > 0n);
            endBytes = offsetBytes + lengthBytes;
          }
        }
      }),
      { numRuns: 300 },
    );
  });

  test('SM14: all that is there, compared with nothing', async () => {
    await fc.assert(
      fc.asyncProperty(scenes, halves, async (scene, fromBytes) => {
        const ranges = await rangesOf(scene, { fromBytes, isAllocated: true });
        assert.deepEqual(piecesIn(ranges), expected({ ...scene, base: new Map() }, fromBytes));
      }),
    );
  });

  test('of what two snapshots share nothing is read but the way there', async () => {
    const base = new Map(Array.from({ length: 4096 }, (_, index) => [index, index]));
    const target = new Map(base).set(2000, 5000);
    const sizeBytes = 4096n * chunkBytes;
    const seen = { reads: 0 };
    const ranges = await rangesOf({ base, target, baseBytes: sizeBytes, targetBytes: sizeBytes }, { seen });
    assert.deepEqual(ranges, [{ offsetBytes: 2000n * chunkBytes, lengthBytes: chunkBytes }]);
    // There are 1024 leaves in each.
    assert.ok(seen.reads < 500, `${seen.reads}`);
  });

  test('SM02 SM12: a snapshot that is removed meanwhile ends it with an error, not with too little', async () => {
    const base: Chunks = new Map();
    const target = new Map(Array.from({ length: 64 }, (_, index) => [2 * index, index]));
    const scene = { base, target, baseBytes: 128n * chunkBytes, targetBytes: 128n * chunkBytes };
    for (const gone of [baseId, targetId]) {
      const seen: Parameters<typeof partsOf>[1] = { reads: 0 };
      seen.onRead = (count) => {
        if (count === 5) seen.gone = gone;
      };
      await assert.rejects(rangesOf(scene, { seen }), NotFound);
    }
  });
});

describe('metadata that is damaged', () => {
  const chunksOf = new Map([[0, 1]]);
  const all = new Metadata(new Map([[9n, chunksOf]]));
  const read = async (changed: bigint, change: (bytes: Buffer) => void) => {
    const readBlock = async (block: bigint) => {
      const bytes = Buffer.from(all.blocks.get(block) ?? Buffer.alloc(metadataBlockBytes));
      if (block === changed) change(bytes);
      return bytes;
    };
    const trees = await MappingTrees.open('fast', readBlock, superblock);
    const root = await trees.rootOf(9n);
    return root === undefined ? undefined : trees.page(root, 0n, chunkBytes);
  };

  test('SM12: is an error in each of its blocks, and so is one in the place of another', async () => {
    assert.equal((await read(0n, () => undefined))?.extents.length, 1);
    for (const block of all.blocks.keys()) {
      for (const at of [0, 8, 16, 40, 336, metadataBlockBytes - 1]) {
        await assert.rejects(
          read(block, (bytes) => bytes.writeUInt8(bytes.readUInt8(at) ^ 1, at)),
          DataLoss,
        );
      }
      for (const other of all.blocks.values()) {
        if (other !== all.blocks.get(block))
          await assert.rejects(
            read(block, (bytes) => void other.copy(bytes)),
            DataLoss,
          );
      }
    }
  });

  test('a device that is not there has no map', async () => {
    const trees = await MappingTrees.open('fast', async (block) => all.blocks.get(block) ?? assert.fail(), superblock);
    assert.equal(await trees.rootOf(8n), undefined);
    assert.equal(await trees.rootOf(10n), undefined);
  });
});
