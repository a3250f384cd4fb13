import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { describe, type TestContext, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import * as grpc from '@grpc/grpc-js';
import { decode, encode, methodsOf } from '../../src/csi/contract.ts';
import type { GetMetadataDeltaResponse } from '../../src/csi/generated/types.ts';
import { snapshotIdFor } from '../../src/volume/id.ts';
import { DriverProcess } from '../support/driver.ts';
import { eventually } from '../support/eventually.ts';
import { Scratch } from '../support/scratch.ts';
import { fails } from './controller-driver.ts';
import {
  backingFile,
  everyOther,
  MetadataDriver,
  mebibyte,
  openImages,
  rangesIn,
  writeBlocks,
} from './snapshot-metadata-driver.ts';
import { framed, openSession, startRequest } from './wire-http2.ts';

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

/** A driver with two snapshots whose delta is too long to be sent to somebody who does not read. */
async function withLongDelta() {
  const driver = await MetadataDriver.start({ makeLocation: backingFile(1n << 30n) });
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
    // The line comes when the stream is done, which is after its images.
    await eventually(() =>
      assert.deepEqual(
        driver.server.callLines.map(({ code, rpc }) => ({ code, rpc })),
        [{ code: 'CANCELLED', rpc: 'GetMetadataDelta' }],
      ),
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
    assert.equal(status, `${grpc.status.UNAVAILABLE}`);
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
    await fails(
      client.snapshotMetadata.GetMetadataAllocated({ snapshot_id: snapshotIdFor('node', 'nobody') }),
      'NOT_FOUND',
    );
  });
});
