import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { attachDevice, type DeviceAttachment } from '../../../src/pool/attached-device.ts';
import type { Pool } from '../../../src/pool/pool.ts';
import type { VolumeId } from '../../../src/volume/id.ts';
import { volumeSpec } from '../../support/image-pool.ts';
import { idOf, type Operation, snapshotOf } from './operations.ts';

const content = { type: 'block' } as const;
const sizeBytes = 8n << 20n;
const written = Buffer.alloc(4096, 'in use');

async function attached(pool: Pool, id: VolumeId): Promise<DeviceAttachment> {
  const attachment = await attachDevice(pool, id, { persistent: true });
  await attachment.release();
  return attachment;
}

async function prepare(pool: Pool, name: string): Promise<void> {
  const { id } = await pool.create(volumeSpec(name, { content, sizeBytes }));
  const attachment = await attached(pool, id);
  writeFileSync(attachment.devicePath, written);
  await pool.detach(attachment);
}

async function holdsWhatWasWritten(pool: Pool, id: VolumeId): Promise<void> {
  const attachment = await attached(pool, id);
  assert.ok(readFileSync(attachment.devicePath).subarray(0, written.length).equals(written));
  await pool.detach(attachment);
}

/** What is done to volumes in use past LVM, which pools of thin volumes alone do. */
export const inUseOperations: Readonly<Record<string, Operation>> = {
  'snapshot in use': {
    prepare,
    run: async (pool, name) => {
      const inUse = await attached(pool, idOf(name));
      const snapshot = { id: snapshotOf(name), name, sourceId: idOf(name), parameters: {} };
      if ((await pool.findSnapshot(snapshot.id)) === undefined) await pool.takeSnapshots([snapshot]);
      await pool.detach(inUse);
    },
    check: async (pool, name) => {
      const spec = volumeSpec(`${name}-restored`, { content, sizeBytes });
      await holdsWhatWasWritten(pool, (await pool.create(spec, { type: 'snapshot', id: snapshotOf(name) })).id);
    },
  },
  'clone in use': {
    prepare,
    run: async (pool, name) => {
      const inUse = await attached(pool, idOf(name));
      const spec = volumeSpec(`${name}-clone`, { content, sizeBytes });
      if ((await pool.find(spec.id)) === undefined) await pool.create(spec, { type: 'volume', id: idOf(name) });
      await pool.detach(inUse);
    },
    check: (pool, name) => holdsWhatWasWritten(pool, idOf(`${name}-clone`)),
  },
};
