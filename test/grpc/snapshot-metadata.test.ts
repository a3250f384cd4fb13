import assert from 'node:assert/strict';
import { rmSync, truncateSync } from 'node:fs';
import { dirname } from 'node:path';
import { describe, test } from 'node:test';
import type { BlockMetadata } from '../../src/csi/generated/types.ts';
import { groupIdFor, memberIdFor, type SnapshotId, snapshotIdFor } from '../../src/volume/id.ts';
import { volumeSpec } from '../support/image-pool.ts';
import { fails } from './controller-driver.ts';
import {
  blockBytes,
  btrfsDirectory,
  everyOther,
  hostDirectory,
  MetadataDriver,
  mebibyte,
  openImages,
  rangesIn,
  rebuilt,
  writeBlocks,
} from './snapshot-metadata-driver.ts';

const sizeBytes = BigInt(64 * mebibyte);
const nobody = snapshotIdFor('node', 'nobody');

const range = (byte_offset: number, size_bytes: number): BlockMetadata => ({
  byte_offset: BigInt(byte_offset),
  size_bytes: BigInt(size_bytes),
});

/** A driver with a volume that was cut twice: blocks 0 to 3 written before, 2, 3 and 8 between the cuts. */
async function withTwoCuts() {
  const driver = await MetadataDriver.start();
  const disk = await driver.volume('disk');
  await writeBlocks(disk, 0, 1, 2, 3);
  const base = await driver.cut('base', disk.id);
  await writeBlocks(disk, 2, 3, 8);
  const target = await driver.cut('target', disk.id);
  await disk.detach();
  const ids = { base_snapshot_id: base.id, target_snapshot_id: target.id };
  return { driver, base, target, ids };
}

describe('SnapshotMetadata tells', () => {
  test('SM06 SM07 SM08 SM14: what a snapshot holds, and what changed between two', async () => {
    const { driver, ids } = await withTwoCuts();
    await using _driver = driver;
    const shape = { block_metadata_type: 'VARIABLE_LENGTH', volume_capacity_bytes: sizeBytes };
    assert.deepEqual(await driver.client.GetMetadataAllocated({ snapshot_id: ids.target_snapshot_id }), [
      { ...shape, block_metadata: [range(0, 4 * blockBytes), range(8 * blockBytes, blockBytes)] },
    ]);
    assert.deepEqual(await driver.client.GetMetadataDelta(ids), [
      { ...shape, block_metadata: [range(2 * blockBytes, 2 * blockBytes), range(8 * blockBytes, blockBytes)] },
    ]);
  });

  test('SM07 SM08 SM09: the same type and size in all messages, and no more ranges than asked for', async () => {
    const { driver, ids } = await withTwoCuts();
    await using _driver = driver;
    const messages = await driver.client.GetMetadataDelta({ ...ids, max_results: 1 });
    assert.deepEqual(
      messages.map(({ block_metadata }) => block_metadata),
      [[range(2 * blockBytes, 2 * blockBytes)], [range(8 * blockBytes, blockBytes)]],
    );
    assert.ok(messages.every(({ block_metadata_type }) => block_metadata_type === 'VARIABLE_LENGTH'));
    assert.ok(messages.every(({ volume_capacity_bytes }) => volume_capacity_bytes === sizeBytes));
  });

  test('SM09: messages of its own choice are far below 4 MiB, whatever is asked for', async () => {
    await using driver = await MetadataDriver.start();
    const disk = await driver.volume('disk');
    await writeBlocks(disk, ...everyOther(3000));
    const { id } = await driver.cut('snap', disk.id);
    await disk.detach();
    for (const max_results of [0, 2 ** 31 - 1]) {
      const messages = await driver.client.GetMetadataAllocated({ snapshot_id: id, max_results });
      assert.equal(rangesIn(messages).length, 3000);
      assert.ok(messages.length > 1);
      for (const { block_metadata } of messages) assert.ok(block_metadata.length * 25 < mebibyte);
    }
  });

  test('SM10: from any offset on, the first range ends after it and nothing is told that lies before it', async () => {
    const { driver, base, target } = await withTwoCuts();
    await using _driver = driver;
    const from = (offset: number) => driver.delta(base.id, target.id, BigInt(offset));
    const last = range(8 * blockBytes, blockBytes);
    assert.deepEqual(await from(2 * blockBytes - 1), [range(2 * blockBytes, 2 * blockBytes), last]);
    assert.deepEqual(await from(2 * blockBytes + 5), [range(2 * blockBytes + 5, 2 * blockBytes - 5), last]);
    assert.deepEqual(await from(4 * blockBytes), [last]);
    assert.deepEqual(await from(9 * blockBytes - 1), [range(9 * blockBytes - 1, 1)]);
    assert.deepEqual(await from(9 * blockBytes), []);
  });

  test('SM14: nothing written, and nothing changed, is a stream without messages', async () => {
    await using driver = await MetadataDriver.start();
    const disk = await driver.volume('disk', { provisioning: 'thick' });
    const empty = await driver.cut('empty', disk.id);
    assert.deepEqual(await driver.client.GetMetadataAllocated({ snapshot_id: empty.id }), []);
    await writeBlocks(disk, 5);
    const base = await driver.cut('base', disk.id);
    const target = await driver.cut('target', disk.id);
    await disk.detach();
    const ids = { base_snapshot_id: base.id, target_snapshot_id: target.id };
    assert.deepEqual(await driver.client.GetMetadataDelta(ids), []);
    assert.deepEqual(await driver.delta(empty.id, target.id), [range(5 * blockBytes, blockBytes)]);
  });

  test('many streams at once, the same to each', async () => {
    const { driver, ids, base, target } = await withTwoCuts();
    await using _driver = driver;
    const expected = await driver.delta(base.id, target.id);
    const answers = await Promise.all(Array.from({ length: 50 }, () => driver.client.GetMetadataDelta(ids)));
    for (const messages of answers) assert.deepEqual(rangesIn(messages), expected);
    assert.equal(openImages(), 0);
  });

  test('SM14: a member of a group compared with a snapshot of its own, also when their volume is gone', async () => {
    await using driver = await MetadataDriver.start();
    const disk = await driver.volume('disk');
    const base = await driver.cut('base', disk.id);
    await writeBlocks(disk, 1);
    await disk.detach();
    const group = { id: groupIdFor('node', 'group'), name: 'group', parameters: {} };
    const spec = { id: memberIdFor(group.id, disk.id), name: 'member', sourceId: disk.id, parameters: {} };
    const [member] = await driver.pool.takeSnapshots([spec], group);
    await driver.pool.remove(disk.id);
    assert.deepEqual(await driver.delta(base.id, member?.id ?? nobody), [range(blockBytes, blockBytes)]);
  });
});

describe('SnapshotMetadata refuses', () => {
  test('SM01: missing ids and numbers below zero', async () => {
    const { driver, ids } = await withTwoCuts();
    await using _driver = driver;
    const { GetMetadataAllocated, GetMetadataDelta } = driver.client;
    await fails(GetMetadataAllocated({}), 'INVALID_ARGUMENT', /snapshot_id/);
    await fails(GetMetadataDelta({ ...ids, base_snapshot_id: '' }), 'INVALID_ARGUMENT', /base_snapshot_id/);
    await fails(GetMetadataDelta({ ...ids, target_snapshot_id: '' }), 'INVALID_ARGUMENT', /target_snapshot_id/);
    await fails(GetMetadataDelta({ ...ids, max_results: -1 }), 'INVALID_ARGUMENT', /max_results/);
  });

  test('SM02: snapshots that are not there, whatever their ids look like', async () => {
    const { driver, ids } = await withTwoCuts();
    await using _driver = driver;
    const { GetMetadataAllocated, GetMetadataDelta } = driver.client;
    for (const id of [nobody, 'snap-1', '../snapshots', `${ids.base_snapshot_id}/..`]) {
      await fails(GetMetadataAllocated({ snapshot_id: id }), 'NOT_FOUND', /no snapshot/);
      await fails(GetMetadataDelta({ ...ids, base_snapshot_id: id }), 'NOT_FOUND');
      await fails(GetMetadataDelta({ ...ids, target_snapshot_id: id }), 'NOT_FOUND');
    }
  });

  test('SM03: offsets outside of the volume; its end is none', async () => {
    const { driver, ids } = await withTwoCuts();
    await using _driver = driver;
    const { GetMetadataAllocated, GetMetadataDelta } = driver.client;
    for (const starting_offset of [-1n, -(2n ** 63n), sizeBytes + 1n, 2n ** 63n - 1n]) {
      await fails(GetMetadataDelta({ ...ids, starting_offset }), 'OUT_OF_RANGE', /starting_offset/);
      await fails(GetMetadataAllocated({ snapshot_id: ids.base_snapshot_id, starting_offset }), 'OUT_OF_RANGE');
    }
    assert.deepEqual(await GetMetadataDelta({ ...ids, starting_offset: sizeBytes }), []);
  });

  for (const [where, makeLocation] of Object.entries({ ext4: hostDirectory, btrfs: btrfsDirectory })) {
    test(`SM04 SM14: a delta on ${where}, where places tell nothing; what a snapshot holds is told`, async () => {
      await using driver = await MetadataDriver.start({ makeLocation });
      const disk = await driver.volume('disk', { provisioning: 'thick' });
      await writeBlocks(disk, 0, 1, 100);
      await disk.discard(blockBytes, blockBytes);
      await disk.detach();
      const base = await driver.cut('base', disk.id);
      const target = await driver.cut('target', disk.id);
      const ids = { base_snapshot_id: base.id, target_snapshot_id: target.id };
      await fails(driver.client.GetMetadataDelta(ids), 'FAILED_PRECONDITION', /XFS/);
      const allocated = await driver.allocated(target.id);
      const content = await driver.contentOf(target);
      assert.ok(rebuilt(Buffer.alloc(0), content, allocated).equals(content));
      assert.equal(content[100 * blockBytes], 101);
      const bytes = allocated.reduce((sum, { size_bytes }) => sum + size_bytes, 0n);
      assert.ok(bytes <= BigInt(4 * 64 * 1024), `${bytes} bytes for three blocks`);
      assert.deepEqual(await driver.allocated(target.id, BigInt(100 * blockBytes + 1)), [
        range(100 * blockBytes + 1, Number(lastEnd(allocated)) - 100 * blockBytes - 1),
      ]);
    });
  }

  test('SM05: snapshots of two volumes, the wrong way round, or one twice', async () => {
    const { driver, ids, base, target } = await withTwoCuts();
    await using _driver = driver;
    const other = await driver.volume('other');
    const foreign = await driver.cut('foreign', other.id);
    await other.detach();
    const delta = (base_snapshot_id: SnapshotId, target_snapshot_id: SnapshotId) =>
      driver.client.GetMetadataDelta({ base_snapshot_id, target_snapshot_id });
    await fails(delta(base.id, foreign.id), 'INVALID_ARGUMENT', /same volume/);
    await fails(delta(target.id, base.id), 'INVALID_ARGUMENT', /older/);
    await fails(delta(base.id, base.id), 'INVALID_ARGUMENT', /older/);
    assert.equal((await driver.client.GetMetadataDelta(ids)).length, 1);
  });

  test('SM05: snapshots of volumes with a filesystem', async () => {
    await using driver = await MetadataDriver.start();
    const { id } = await driver.pool.create(volumeSpec('with a filesystem'));
    const [base, target] = [await driver.cut('base', id), await driver.cut('target', id)];
    const { GetMetadataAllocated, GetMetadataDelta } = driver.client;
    await fails(GetMetadataAllocated({ snapshot_id: base.id }), 'INVALID_ARGUMENT', /filesystem/);
    const ids = { base_snapshot_id: base.id, target_snapshot_id: target.id };
    await fails(GetMetadataDelta(ids), 'INVALID_ARGUMENT', /filesystem/);
  });

  test('SM15: a snapshot that is being made, until it is there', async () => {
    await using driver = await MetadataDriver.start();
    const disk = await driver.volume('disk');
    const id = snapshotIdFor('node', 'snap');
    await driver.objects.run(id, 'CreateSnapshot', '', async () => {
      await fails(driver.client.GetMetadataAllocated({ snapshot_id: id }), 'UNAVAILABLE', /being made/);
      await driver.cut('snap', disk.id);
    });
    await disk.detach();
    assert.deepEqual(await driver.client.GetMetadataAllocated({ snapshot_id: id }), []);
  });

  test('SM12: an image that is shorter than its volume was, or missing', async () => {
    const { driver, ids, base } = await withTwoCuts();
    await using _driver = driver;
    const path = driver.imageOf(base.id);
    truncateSync(path, mebibyte);
    await fails(driver.client.GetMetadataAllocated({ snapshot_id: base.id }), 'DATA_LOSS', /has only/);
    await fails(driver.client.GetMetadataDelta(ids), 'DATA_LOSS', /has only/);
    rmSync(path);
    await fails(driver.client.GetMetadataDelta(ids), 'DATA_LOSS', /is missing/);
    rmSync(dirname(path), { recursive: true });
    await fails(driver.client.GetMetadataDelta(ids), 'NOT_FOUND', /no snapshot/);
    assert.equal(openImages(), 0);
  });
});

/** Where the last range ends. */
function lastEnd(ranges: readonly BlockMetadata[]): bigint {
  const last = ranges.at(-1) ?? assert.fail('no ranges');
  return last.byte_offset + last.size_bytes;
}
