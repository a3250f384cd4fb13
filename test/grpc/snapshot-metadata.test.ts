import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readlinkSync, rmSync, truncateSync } from 'node:fs';
import { describe, type TestContext, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { decode, encode, methodsOf } from '../../src/csi/contract.ts';
import type { BlockMetadata, GetMetadataDeltaResponse } from '../../src/csi/generated/types.ts';
import type { SnapshotId } from '../../src/volume/id.ts';
import { snapshotIdFor } from '../../src/volume/id.ts';
import { DriverProcess } from '../support/driver.ts';
import { volumeSpec } from '../support/image-pool.ts';
import { Scratch } from '../support/scratch.ts';
import { fails } from './controller-driver.ts';
import {
  backingFile,
  btrfsDirectory,
  hostDirectory,
  MetadataDriver,
  mebibyte,
  rangesIn,
  rebuilt,
  type TestDisk,
} from './snapshot-metadata-driver.ts';
import { framed, openSession, startRequest } from './wire-http2.ts';

const block = 4096;
const sizeBytes = BigInt(64 * mebibyte);
const nobody = snapshotIdFor('node', 'nobody');

const range = (byte_offset: number, size_bytes: number): BlockMetadata => ({
  byte_offset: BigInt(byte_offset),
  size_bytes: BigInt(size_bytes),
});

async function writeBlocks(disk: TestDisk, ...blocks: readonly number[]): Promise<void> {
  for (const each of blocks) await disk.write(each * block, Buffer.alloc(block, 1 + (each % 255)));
}

const everyOther = (count: number) => Array.from({ length: count }, (_, index) => index * 2);

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

/** A call of GetMetadataDelta as bytes, of which nothing is read before somebody listens. */
function openRaw(t: TestContext, driver: MetadataDriver, request: object) {
  const method = methodsOf('csi.v1.SnapshotMetadata').find(({ name }) => name === 'GetMetadataDelta');
  assert.ok(method);
  const session = openSession(driver.server.socketPath);
  t.after(() => session.destroy());
  // What the connection takes while nobody reads.
  session.settings({ initialWindowSize: 1000 });
  const stream = startRequest(session, { path: method.path, body: Buffer.alloc(0) });
  stream.end(framed(encode(method.requestType, request)));
  const readAll = async () => {
    const received: Buffer[] = [];
    for await (const bytes of stream) received.push(bytes);
    const all = Buffer.concat(received);
    const messages: GetMetadataDeltaResponse[] = [];
    for (let at = 0; at < all.length; ) {
      const endsAt = at + 5 + all.readUInt32BE(at + 1);
      messages.push(decode(method.responseType, all.subarray(at + 5, endsAt)));
      at = endsAt;
    }
    return rangesIn(messages);
  };
  return { session, stream, readAll };
}

/** How many images of snapshots this process has open. */
function openImages(): number {
  let count = 0;
  for (const fd of readdirSync('/proc/self/fd')) {
    try {
      if (/\/(snapshots|trash)\/snap-[^/]+\/data/.test(readlinkSync(`/proc/self/fd/${fd}`))) count++;
    } catch {
      // The descriptor that read the directory.
    }
  }
  return count;
}

describe('SnapshotMetadata tells', () => {
  test('SM06 SM07 SM08 SM14: what a snapshot holds, and what changed between two', async () => {
    const { driver, ids } = await withTwoCuts();
    await using _driver = driver;
    const shape = { block_metadata_type: 'VARIABLE_LENGTH', volume_capacity_bytes: sizeBytes };
    assert.deepEqual(await driver.client.GetMetadataAllocated({ snapshot_id: ids.target_snapshot_id }), [
      { ...shape, block_metadata: [range(0, 4 * block), range(8 * block, block)] },
    ]);
    assert.deepEqual(await driver.client.GetMetadataDelta(ids), [
      { ...shape, block_metadata: [range(2 * block, 2 * block), range(8 * block, block)] },
    ]);
  });

  test('SM07 SM08 SM09: the same type and size in all messages, and no more ranges than asked for', async () => {
    const { driver, ids } = await withTwoCuts();
    await using _driver = driver;
    const messages = await driver.client.GetMetadataDelta({ ...ids, max_results: 1 });
    assert.deepEqual(
      messages.map(({ block_metadata }) => block_metadata),
      [[range(2 * block, 2 * block)], [range(8 * block, block)]],
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
    const last = range(8 * block, block);
    assert.deepEqual(await from(2 * block - 1), [range(2 * block, 2 * block), last]);
    assert.deepEqual(await from(2 * block + 5), [range(2 * block + 5, 2 * block - 5), last]);
    assert.deepEqual(await from(4 * block), [last]);
    assert.deepEqual(await from(9 * block - 1), [range(9 * block - 1, 1)]);
    assert.deepEqual(await from(9 * block), []);
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
    assert.deepEqual(await driver.delta(empty.id, target.id), [range(5 * block, block)]);
  });

  test('many streams at once, the same to each', async () => {
    const { driver, ids, base, target } = await withTwoCuts();
    await using _driver = driver;
    const expected = await driver.delta(base.id, target.id);
    const answers = await Promise.all(Array.from({ length: 50 }, () => driver.client.GetMetadataDelta(ids)));
    for (const messages of answers) assert.deepEqual(rangesIn(messages), expected);
    assert.equal(openImages(), 0);
  });

  test('the members of a group, and snapshots of volumes that are gone', async () => {
    await using driver = await MetadataDriver.start();
    const disk = await driver.volume('disk');
    const base = await driver.cut('base', disk.id);
    await writeBlocks(disk, 1);
    const target = await driver.cut('target', disk.id);
    await disk.detach();
    await driver.pool.remove(disk.id);
    assert.deepEqual(await driver.delta(base.id, target.id), [range(block, block)]);
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

  for (const [where, makeHome] of Object.entries({ ext4: hostDirectory, btrfs: btrfsDirectory })) {
    test(`SM04 SM14: a delta on ${where}, where places tell nothing; what a snapshot holds is told`, async () => {
      await using driver = await MetadataDriver.start({ makeHome });
      const disk = await driver.volume('disk', { provisioning: 'thick' });
      await writeBlocks(disk, 0, 1, 100);
      await disk.discard(block, block);
      await disk.detach();
      const base = await driver.cut('base', disk.id);
      const target = await driver.cut('target', disk.id);
      const ids = { base_snapshot_id: base.id, target_snapshot_id: target.id };
      await fails(driver.client.GetMetadataDelta(ids), 'FAILED_PRECONDITION', /XFS/);
      const allocated = await driver.allocated(target.id);
      const content = await driver.contentOf(target);
      assert.ok(rebuilt(Buffer.alloc(0), content, allocated).equals(content));
      assert.equal(content[100 * block], 101);
      const bytes = allocated.reduce((sum, { size_bytes }) => sum + size_bytes, 0n);
      assert.ok(bytes <= BigInt(4 * 64 * 1024), `${bytes} bytes for three blocks`);
      assert.deepEqual(await driver.allocated(target.id, BigInt(100 * block + 1)), [
        range(100 * block + 1, Number(lastEnd(allocated)) - 100 * block - 1),
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
    await fails(delta(base.id, foreign.id), 'INVALID_ARGUMENT', /one volume/);
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
    await driver.flights.run(id, 'CreateSnapshot', '', async () => {
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
    await fails(driver.client.GetMetadataAllocated({ snapshot_id: base.id }), 'DATA_LOSS', /shorter/);
    await fails(driver.client.GetMetadataDelta(ids), 'DATA_LOSS', /shorter/);
    rmSync(path);
    await fails(driver.client.GetMetadataDelta(ids), 'NOT_FOUND', /no snapshot/);
    assert.equal(openImages(), 0);
  });
});

/** Where the last range ends. */
function lastEnd(ranges: readonly BlockMetadata[]): bigint {
  const last = ranges.at(-1) ?? assert.fail('no ranges');
  return last.byte_offset + last.size_bytes;
}

/** A driver with two snapshots whose delta is too long to be sent to somebody who does not read. */
async function withLongDelta() {
  const driver = await MetadataDriver.start({ makeHome: backingFile(1n << 30n) });
  const disk = await driver.volume('disk', { provisioning: 'thick' });
  const base = await driver.cut('base', disk.id);
  await writeBlocks(disk, ...everyOther(2000));
  const target = await driver.cut('target', disk.id);
  const ids = { base_snapshot_id: base.id, target_snapshot_id: target.id, max_results: 10 };
  return { driver, disk, base, target, ids };
}

/** Waits until a stream that nobody reads has come to a stop with its images open. */
async function stalled(): Promise<void> {
  while (openImages() < 2) await delay(5);
  // The connection takes what it has room for; more cannot come until somebody reads.
  await delay(300);
  assert.equal(openImages(), 2);
}

describe('a stream that is on its way', () => {
  test('SM13: holds its images open no longer than its client is there', async (t) => {
    const { driver, disk, ids } = await withLongDelta();
    await using _driver = driver;
    await disk.detach();
    const { session } = openRaw(t, driver, ids);
    await stalled();
    session.destroy();
    while (openImages() > 0) await delay(5);
    assert.deepEqual(
      driver.server.callLines.map(({ code, rpc }) => ({ code, rpc })),
      [{ code: 'CANCELLED', rpc: 'GetMetadataDelta' }],
    );
  });

  test('SM14: goes on as if nothing was when both snapshots are removed and their blocks used again', async (t) => {
    const { driver, disk, ids, base, target } = await withLongDelta();
    await using _driver = driver;
    const expected = await driver.delta(base.id, target.id);
    assert.equal(expected.length, 2000);
    const { readAll } = openRaw(t, driver, ids);
    await stalled();
    for (const { id } of [base, target]) await driver.pool.removeSnapshot(id);
    await writeBlocks(disk, ...everyOther(2000));
    const next = await driver.cut('next', disk.id);
    await disk.write(0, Buffer.alloc(32 * mebibyte, 9));
    assert.deepEqual(await readAll(), expected);
    while (openImages() > 0) await delay(5);
    await fails(driver.client.GetMetadataDelta(ids), 'NOT_FOUND');
    assert.equal((await driver.allocated(next.id)).length, 2000);
    await disk.detach();
  });

  test('SM12: ends with an error when the disk fails, never as if it were complete', async (t) => {
    const { driver, disk, ids } = await withLongDelta();
    await using _driver = driver;
    await disk.detach();
    const { stream, readAll } = openRaw(t, driver, ids);
    const trailers = once(stream, 'trailers');
    await stalled();
    execFileSync('xfs_io', ['-x', '-c', 'shutdown', driver.mountPoint]);
    const received = await readAll();
    const [{ 'grpc-status': status, 'grpc-message': message }] = await trailers;
    assert.equal(status, '13');
    assert.match(decodeURIComponent(`${message}`), /FIEMAP.*\(EIO\)/);
    assert.ok(received.length < 2000);
    assert.equal(openImages(), 0);
  });
});

describe('the driver as a process', () => {
  test('G02 I04: offers the service that it says it has', async () => {
    using scratch = new Scratch('metadata');
    await using driver = await DriverProcess.start(scratch);
    using client = driver.connect();
    const { capabilities } = await client.identity.GetPluginCapabilities({});
    assert.ok(capabilities.some(({ service }) => service?.type === 'SNAPSHOT_METADATA_SERVICE'));
    await fails(client.snapshotMetadata.GetMetadataAllocated({ snapshot_id: nobody }), 'NOT_FOUND');
  });
});
