import assert from 'node:assert/strict';
import { mkdirSync, truncateSync, writeFileSync } from 'node:fs';
import { test } from 'node:test';
import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import { luksLayer } from '../../src/pool/layers/luks/luks-layer.ts';
import { newEncryption } from '../../src/volume/encryption.ts';
import { snapshotIdFor, volumeIdFor } from '../../src/volume/id.ts';
import type { SnapshotRecord } from '../../src/volume/snapshot-record.ts';
import { openTestBackend, openTestPool } from '../support/image-pool.ts';
import { Scratch } from '../support/scratch.ts';

const mib = 1n << 20n;

test('an encrypted volume moves with its header, and to its last byte', async () => {
  using scratch = new Scratch('move');
  await (await openTestPool(scratch)).close();
  const backend = await openTestBackend(scratch, new DiskQueue('test', 2));
  const layer = luksLayer(backend, { poolName: 'test', dataDirectory: scratch.join('data'), keyFile: undefined });
  const id = snapshotIdFor('node', 'snapshot');
  const record: SnapshotRecord = {
    ...{ id, name: 'snapshot', sourceId: volumeIdFor('node', 'test', 'data'), sizeBytes: 8n * mib },
    ...{ content: { type: 'block' }, blockSizeBytes: 512, parameters: {}, createdAt: new Date().toISOString() },
    encryption: newEncryption('luks2'),
  };
  const path = scratch.join('pool', 'snapshots', id, 'data');
  mkdirSync(scratch.join('pool', 'snapshots', id));
  writeFileSync(path, Buffer.alloc(Number(24n * mib), 1));
  const { transfer } = layer.extras;
  const request = { base: undefined, target: id, fromBytes: 0n, signal: new AbortController().signal };
  const ranges = [];
  for await (const range of transfer?.changedRanges?.(request, () => record) ?? []) ranges.push(range);
  assert.deepEqual(ranges, [{ offsetBytes: 0n, lengthBytes: 24n * mib }]);
  // The data without its last byte does not pass for whole.
  truncateSync(path, Number(24n * mib) - 1);
  await assert.rejects(async () => transfer?.read({ kind: 'snapshot', record }), { name: 'DataLoss' });
  await backend.close();
});
