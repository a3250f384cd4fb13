import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { attachDevice, attachedDevices } from '../../src/pool/attached-device.ts';
import type { Traits } from '../../src/pool/pool.ts';
import { FailedPrecondition } from '../../src/volume/errors.ts';
import { snapshotIdFor, volumeIdFor } from '../../src/volume/id.ts';
import { eventually } from '../support/eventually.ts';
import { withHeader } from '../support/header-layer.ts';
import { openTestPool, volumeSpec } from '../support/image-pool.ts';
import { withMounted } from '../support/mounted-volume.ts';
import { Scratch } from '../support/scratch.ts';
import { seenAs } from '../support/seen-device.ts';

const mebibyte = 1n << 20n;

/** On XFS, where files share blocks. */
function open(scratch: Scratch, detaching: Traits['detaching'] = 'automatic') {
  return openTestPool(scratch, {
    location: { type: 'file', path: scratch.join('pool.img'), sizeBytes: 4n << 30n },
    layers: [(backend) => withHeader(backend, detaching)],
  });
}

describe('a backend over another backend', () => {
  for (const [fsType, detaching] of [
    ['ext4', 'automatic'],
    ['xfs', 'automatic'],
    ['ext4', 'explicit'],
  ] as const) {
    test(`has a header of its own, and ${fsType} volumes that keep their data, also in snapshots and clones; it is detached: ${detaching}`, async () => {
      using scratch = new Scratch('layer');
      const bytes = randomBytes(1 << 20);
      const pool = await open(scratch, detaching);
      const spec = volumeSpec('layered', { sizeBytes: 320n * mebibyte, content: { type: 'mount', fsType } });
      await pool.create(spec);
      await withMounted(pool, spec.id, scratch, (path) => writeFileSync(`${path}/file`, bytes));
      await eventually(async () => assert.deepEqual(await pool.attached(spec.id), []));
      const snapshotId = snapshotIdFor('node', 'snap');
      await pool.takeSnapshots([{ id: snapshotId, name: 'snap', sourceId: spec.id, parameters: {} }]);
      const clone = { ...volumeSpec('clone'), content: spec.content, sizeBytes: spec.sizeBytes };
      await pool.create(clone, { type: 'snapshot', id: snapshotId });
      await pool.remove(spec.id);
      await pool.close();
      const again = await open(scratch, detaching);
      await withMounted(again, clone.id, scratch, (path) => assert.ok(readFileSync(`${path}/file`).equals(bytes)));
      await eventually(async () => assert.deepEqual(await again.attached(clone.id), []));
      await again.close();
    });
  }

  test('gives the user all of the size that was asked for, and grows with its volume', async () => {
    using scratch = new Scratch('layer');
    const pool = await open(scratch);
    const { id } = await pool.create(volumeSpec('block', { content: { type: 'block' } }));
    const attachment = await attachDevice(pool, id, { persistent: true });
    await attachment.release();
    const size = () => BigInt(readFileSync(`/sys/dev/block/7:${attachment.device.minor}/size`, 'utf8')) * 512n;
    assert.equal(size(), 64n * mebibyte);
    await pool.grow(id, 128n * mebibyte);
    assert.equal(size(), 128n * mebibyte);
    await pool.detach(attachment);
    await pool.close();
  });

  test('shows a device of its own, by which the volume is known and in use', async () => {
    using scratch = new Scratch('layer');
    const pool = await open(scratch);
    const { id } = await pool.create(volumeSpec('block', { content: { type: 'block' } }));
    const attachment = await attachDevice(pool, id, { persistent: true });
    await attachment.release();
    assert.equal(await seenAs(pool, attachment.device), id);
    const again = await attachDevice(pool, id, { persistent: true });
    await again.release();
    assert.deepEqual(again.device, attachment.device);
    await assert.rejects(pool.remove(id), FailedPrecondition);
    await pool.detach(attachment);
    await eventually(async () => assert.deepEqual(await attachedDevices(pool, id), []));
    await pool.remove(id);
    assert.equal(await pool.find(volumeIdFor('node', 'test', 'block')), undefined);
    await pool.close();
  });
});
