import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { attachDevice } from '../../src/pool/attached-device.ts';
import { ResourceExhausted } from '../../src/volume/errors.ts';
import { snapshotIdFor } from '../../src/volume/id.ts';
import type { StepName } from '../../src/volume/step.ts';
import { BeforeStep } from '../support/before-step.ts';
import { openTestPool, volumeSpec } from '../support/image-pool.ts';
import { Scratch } from '../support/scratch.ts';

const mebibyte = 1n << 20n;

/** A user of a raw block volume who writes all of it just before a step of the driver. */
function writerBefore(stepName: StepName, devicePath: string, bytes: bigint): BeforeStep {
  return new BeforeStep(stepName, () => {
    writeFileSync(devicePath, Buffer.alloc(Number(bytes), 1), { flag: 'r+', flush: true });
  });
}

/** XFS in a file of 512 MiB, and an empty raw block volume that is in use. */
async function poolWith(scratch: Scratch, sizeBytes: bigint) {
  const location = { type: 'file', path: scratch.join('pool.img'), sizeBytes: 512n * mebibyte } as const;
  const pool = await openTestPool(scratch, { location });
  const { id } = await pool.create(volumeSpec('v', { content: { type: 'block' }, sizeBytes }));
  const attached = await attachDevice(pool, id, { persistent: true });
  const { devicePath, release } = attached;
  await release();
  return { pool, id, attached, devicePath };
}

describe('GC04 CS10: what is written to a source while it is cloned', () => {
  test('is asked for before there is a snapshot that shares it', async () => {
    using scratch = new Scratch('meanwhile');
    const sizeBytes = 260n * mebibyte;
    const { attached, devicePath, id, pool } = await poolWith(scratch, sizeBytes);
    const spec = { id: snapshotIdFor('node', 's'), name: 's', sourceId: id, parameters: {} };
    {
      using writer = writerBefore('snapshot/directory', devicePath, sizeBytes);
      await assert.rejects(pool.takeSnapshots([spec]), ResourceExhausted);
      assert.ok(writer.hasHappened);
    }
    assert.deepEqual(await pool.listSnapshots(undefined, undefined), []);
    // Nothing shares its blocks, so all of them can be written again.
    writeFileSync(devicePath, Buffer.alloc(Number(sizeBytes), 2), { flag: 'r+', flush: true });
    await pool.detach(attached);
    await pool.close();
  });

  test('is asked for before there is a clone that shares it', async () => {
    using scratch = new Scratch('meanwhile');
    const sizeBytes = 160n * mebibyte;
    const { attached, devicePath, id, pool } = await poolWith(scratch, sizeBytes);
    {
      using writer = writerBefore('create/directory', devicePath, sizeBytes);
      const clone = volumeSpec('clone', { content: { type: 'block' }, sizeBytes });
      await assert.rejects(pool.create(clone, { type: 'volume', id }), ResourceExhausted);
      assert.ok(writer.hasHappened);
    }
    assert.equal((await pool.list(undefined, undefined)).length, 1);
    writeFileSync(devicePath, Buffer.alloc(Number(sizeBytes), 2), { flag: 'r+', flush: true });
    await pool.detach(attached);
    await pool.close();
  });
});
