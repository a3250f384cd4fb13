import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { BlockMetadata } from '../../src/csi/generated/types.ts';
import { provisionings } from '../../src/volume/record.ts';
import type { SnapshotRecord } from '../../src/volume/snapshot-record.ts';
import { SeededRandom } from '../crash/seeded-random.ts';
import {
  backingFile,
  blockBytes,
  MetadataDriver,
  mebibyte,
  rangesIn,
  rebuilt,
  type TestDisk,
} from './snapshot-metadata-driver.ts';

const diskBytes = 64 * mebibyte;

type Touched = Set<number>;
type Write = (disk: TestDisk, random: SeededRandom, touched: Touched) => Promise<void>;

function randomBytes(random: SeededRandom, length: number): Buffer {
  const bytes = Buffer.alloc(length);
  for (let at = 0; at < length; at += 4) bytes.writeUInt32LE(random.below(2 ** 32), Math.min(at, length - 4));
  return bytes;
}

function touch(touched: Touched, offset: number, length: number): void {
  const last = Math.floor((offset + length - 1) / blockBytes);
  for (let block = Math.floor(offset / blockBytes); block <= last; block++) touched.add(block);
}

async function write(disk: TestDisk, offset: number, bytes: Buffer, touched: Touched): Promise<void> {
  touch(touched, offset, bytes.length);
  await disk.write(offset, bytes);
}

const blocksOnDisk = diskBytes / blockBytes;

/** What the users of a disk do to it. */
const patterns: Readonly<Record<string, Write>> = {
  'single blocks all over': async (disk, random, touched) => {
    for (let count = 0; count < 200; count++) {
      await write(disk, random.below(blocksOnDisk) * blockBytes, randomBytes(random, blockBytes), touched);
    }
  },
  'long runs': async (disk, random, touched) => {
    for (let count = 0; count < 3; count++) {
      const length = (1 + random.below(512)) * blockBytes;
      const offset = random.below((diskBytes - length) / blockBytes) * blockBytes;
      await write(disk, offset, randomBytes(random, length), touched);
    }
  },
  'a few bytes anywhere': async (disk, random, touched) => {
    for (let count = 0; count < 100; count++) {
      const length = 4 + random.below(3 * blockBytes);
      await write(disk, random.below(diskBytes - length), randomBytes(random, length), touched);
    }
  },
  'every other block': async (disk, random, touched) => {
    const first = random.below(blocksOnDisk - 2000);
    for (let block = first; block < first + 2000; block += 2) {
      await write(disk, block * blockBytes, Buffer.alloc(blockBytes, 1 + random.below(255)), touched);
    }
  },
  discards: async (disk, random, touched) => {
    for (let count = 0; count < 20; count++) {
      // Whole sectors, but not always whole blocks.
      const length = (1 + random.below(2000)) * 512;
      const offset = random.below((diskBytes - length) / 512) * 512;
      touch(touched, offset, length);
      await disk.discard(offset, length);
    }
  },
  zeros: async (disk, random, touched) => {
    for (let count = 0; count < 20; count++) {
      const length = (1 + random.below(64)) * blockBytes;
      const offset = random.below((diskBytes - length) / blockBytes) * blockBytes;
      await write(disk, offset, Buffer.alloc(length), touched);
    }
  },
  'the same again': async (disk, random, touched) => {
    const content = await disk.read();
    for (let count = 0; count < 50; count++) {
      const offset = random.below(blocksOnDisk - 8) * blockBytes;
      await write(disk, offset, content.subarray(offset, offset + 8 * blockBytes), touched);
    }
  },
  'both ends': async (disk, random, touched) => {
    await write(disk, 0, randomBytes(random, blockBytes), touched);
    await write(disk, diskBytes - blockBytes, randomBytes(random, blockBytes), touched);
  },
  nothing: async () => undefined,
};

async function scribble(disk: TestDisk, random: SeededRandom, times: number): Promise<Touched> {
  const touched: Touched = new Set();
  for (let count = 0; count < times; count++) await random.pick(Object.values(patterns))(disk, random, touched);
  return touched;
}

/** SM06. */
function assertOrdered(ranges: readonly BlockMetadata[], sizeBytes: bigint): void {
  let endBytes = -1n;
  for (const { byte_offset, size_bytes } of ranges) {
    assert.ok(size_bytes > 0n);
    assert.ok(byte_offset > endBytes, 'ranges that touch are one');
    endBytes = byte_offset + size_bytes;
  }
  assert.ok(endBytes <= sizeBytes);
}

function assertWithin(ranges: readonly BlockMetadata[], touched: Touched): void {
  for (const { byte_offset, size_bytes } of ranges) {
    for (let at = byte_offset; at < byte_offset + size_bytes; at += BigInt(blockBytes)) {
      const block = Number(at) / blockBytes;
      assert.ok(touched.has(block), `block ${block} is said to have changed, and nobody wrote to it`);
    }
  }
}

interface Cut {
  readonly record: SnapshotRecord;
  readonly content: Buffer;
}

async function cut(driver: MetadataDriver, disk: TestDisk, name: string): Promise<Cut> {
  const record = await driver.cut(name, disk.id);
  return { record, content: await driver.contentOf(record) };
}

/** SM14: the base with the delta, and nothing with the allocated ranges, are the target, byte for byte. */
async function assertRebuilds(driver: MetadataDriver, base: Cut, target: Cut): Promise<BlockMetadata[]> {
  const delta = await driver.delta(base.record.id, target.record.id);
  assertOrdered(delta, target.record.sizeBytes);
  assert.ok(rebuilt(base.content, target.content, delta).equals(target.content), 'the delta is too small');
  const allocated = await driver.allocated(target.record.id);
  assertOrdered(allocated, target.record.sizeBytes);
  assert.ok(rebuilt(Buffer.alloc(0), target.content, allocated).equals(target.content), 'some data is not told');
  return delta;
}

describe('SM14: a snapshot is rebuilt from an older one and the delta', () => {
  for (const provisioning of provisionings) {
    for (const seed of [1, 2, 3]) {
      test(`${provisioning}, all that users do to a disk, seed ${seed}`, async () => {
        await using driver = await MetadataDriver.start({ hasSmallSectors: true });
        const random = new SeededRandom(seed);
        const disk = await driver.volume('disk', { provisioning });
        await scribble(disk, random, 4);
        const base = await cut(driver, disk, 'base');
        const touched = await scribble(disk, random, 4);
        const target = await cut(driver, disk, 'target');
        await scribble(disk, random, 2);
        const delta = await assertRebuilds(driver, base, target);
        assertWithin(delta, touched);
        await disk.detach();
      });
    }
  }

  test('each thing that users do, one after the other, on a disk that was full of data', async (t) => {
    await using driver = await MetadataDriver.start({ hasSmallSectors: true });
    const random = new SeededRandom(7);
    const disk = await driver.volume('disk');
    await disk.write(0, randomBytes(random, diskBytes));
    let base = await cut(driver, disk, 'full');
    for (const [name, pattern] of Object.entries(patterns)) {
      await t.test(name, async () => {
        const touched: Touched = new Set();
        await pattern(disk, random, touched);
        const target = await cut(driver, disk, name);
        const delta = await assertRebuilds(driver, base, target);
        assertWithin(delta, touched);
        assert.equal(delta.length === 0, touched.size === 0);
        base = target;
      });
    }
    await disk.detach();
  });

  test('any two of a row of snapshots, while older ones go and their blocks are used again', async () => {
    // So little room that what is freed is soon taken.
    await using driver = await MetadataDriver.start({
      hasSmallSectors: true,
      makeLocation: backingFile(400n << 20n),
      overcommit: 100,
      reserveBytes: 1n << 20n,
    });
    const random = new SeededRandom(11);
    const disk = await driver.volume('disk');
    const cuts: Cut[] = [];
    for (let round = 0; round < 8; round++) {
      await scribble(disk, random, 2);
      cuts.push(await cut(driver, disk, `cut ${round}`));
      if (cuts.length > 3) await driver.pool.removeSnapshot(cuts.shift()?.record.id ?? assert.fail());
      for (const [index, base] of cuts.entries()) {
        for (const target of cuts.slice(index + 1)) await assertRebuilds(driver, base, target);
      }
    }
    await disk.detach();
  });

  test('of a volume that grew in between, and of one that was restored and went its own way', async () => {
    await using driver = await MetadataDriver.start({ hasSmallSectors: true });
    const random = new SeededRandom(13);
    const disk = await driver.volume('disk');
    await scribble(disk, random, 2);
    const base = await cut(driver, disk, 'base');
    await driver.pool.grow(disk.id, BigInt(2 * diskBytes));
    await disk.write(2 * diskBytes - blockBytes, randomBytes(random, blockBytes));
    await scribble(disk, random, 2);
    const target = await cut(driver, disk, 'target');
    assert.equal(target.content.length, 2 * diskBytes);
    const delta = await assertRebuilds(driver, base, target);
    assert.equal(delta.at(-1)?.byte_offset, BigInt(2 * diskBytes - blockBytes), 'what is new and empty is not told');
    await disk.detach();
  });

  test('SM09 SM11: and from the end of any message on, exactly the rest', async () => {
    await using driver = await MetadataDriver.start({ hasSmallSectors: true });
    const random = new SeededRandom(17);
    const disk = await driver.volume('disk');
    await scribble(disk, random, 3);
    const base = await cut(driver, disk, 'base');
    await patterns['single blocks all over']?.(disk, random, new Set());
    await scribble(disk, random, 2);
    const target = await cut(driver, disk, 'target');
    const ids = { base_snapshot_id: base.record.id, target_snapshot_id: target.record.id };
    const messages = await driver.client.GetMetadataDelta({ ...ids, max_results: 20 });
    assert.ok(messages.length > 5);
    assert.ok(messages.every(({ block_metadata }) => block_metadata.length > 0 && block_metadata.length <= 20));
    const all = rangesIn(messages);
    assert.deepEqual(all, await driver.delta(base.record.id, target.record.id));
    let told = 0;
    for (const { block_metadata } of messages) {
      told += block_metadata.length;
      const last = block_metadata.at(-1) ?? assert.fail();
      const rest = await driver.delta(base.record.id, target.record.id, last.byte_offset + last.size_bytes);
      assert.deepEqual(rest, all.slice(told));
    }
    await disk.detach();
  });
});
